package browsertest

import (
	"bytes"
	"cmp"
	"flag"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
)

// update writes the pictures of docs/ anew.
var update = flag.Bool("update", false, "write the pictures of the dashboard in docs/ anew")

// TestScreenshots writes a picture of each page into the folder that SCREENSHOTS names.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		t.Skip("SCREENSHOTS names no folder")
	}
	eachPage(t, 360, func(b *tab, what string, width int64, scheme string) {
		b.look(width, max(800, eval[int64](b, `document.documentElement.scrollHeight`)), scheme)
		b.save(filepath.Join(dir, what+".png"), func(picture []byte) []byte { return picture })
	})
}

// docPictures are the pictures in docs/, by their name.
var docPictures = map[string]struct {
	state, page, scheme string
	width, height       int64
}{
	"dashboard-overview": {"full", "", "light", 1280, 1000},
	"dashboard-job":      {"full", "jobs/2", "dark", 1280, 1000},
	"dashboard-kind":     {"full", "kinds/webhook.send", "light", 1280, 900},
	"dashboard-jobs":     {"full", "jobs?status=dead", "dark", 1280, 600},
	"dashboard-phone":    {"full", "", "light", 360, 800},
	"dashboard-empty":    {"empty", "", "light", 1280, 800},
	"dashboard-broken":   {"broken", "", "light", 1280, 800},
}

// TestDocPictures writes the pictures of docs/ anew if it is called with -update.
func TestDocPictures(t *testing.T) {
	if !*update {
		t.Skip("-update is not set")
	}
	b := newTab(t)
	for _, state := range states {
		s := siteIn(t, state)
		for name, p := range docPictures {
			if p.state == state {
				b.look(p.width, p.height, p.scheme)
				b.open(s.url + p.page)
				b.save(filepath.Join("..", "..", "docs", name+".png"), func(picture []byte) []byte { return small(t, picture) })
			}
		}
	}
	b.wantClean()
}

// save writes a picture of the window.
func (b *tab) save(file string, change func([]byte) []byte) {
	b.t.Helper()
	picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(file, change(picture), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// small returns a picture with the 256 colours that are most frequent in it: half as many bytes.
func small(t *testing.T, picture []byte) []byte {
	t.Helper()
	full, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	area := full.Bounds()
	count := make(map[color.Color]int)
	for y := range area.Dy() {
		for x := range area.Dx() {
			count[full.At(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int { return cmp.Compare(count[b], count[a]) })
	reduced := image.NewPaletted(area, colours[:min(len(colours), 256)])
	nearest := make(map[color.Color]uint8)
	for y := range area.Dy() {
		for x := range area.Dx() {
			c := full.At(x, y)
			if _, ok := nearest[c]; !ok {
				nearest[c] = uint8(reduced.Palette.Index(c))
			}
			reduced.SetColorIndex(x, y, nearest[c])
		}
	}
	var b bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&b, reduced); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
