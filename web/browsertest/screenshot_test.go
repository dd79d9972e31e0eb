package browsertest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestScreenshots writes a picture of each page into the folder that SCREENSHOTS names.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		t.Skip("SCREENSHOTS names no folder")
	}
	for _, kind := range []string{"empty", "full"} {
		s := newSite(t)
		if kind == "full" {
			s.stock()
		}
		b := newTab(t)
		for _, name := range slices.Sorted(maps.Keys(pages)) {
			if kind == "empty" && needsJobs[name] {
				continue
			}
			for _, scheme := range []string{"light", "dark"} {
				for _, width := range []int64{360, 1280} {
					b.look(width, 800, scheme)
					b.open(s.url + pages[name])
					b.look(width, max(800, eval[int64](b, `document.documentElement.scrollHeight`)), scheme)
					picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
					if err != nil {
						t.Fatal(err)
					}
					file := filepath.Join(dir, fmt.Sprintf("%s-%s-%s-%d.png", kind, name, scheme, width))
					if err := os.WriteFile(file, picture, 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
}
