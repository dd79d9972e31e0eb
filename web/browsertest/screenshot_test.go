package browsertest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestScreenshots writes a picture of each page into the folder that SCREENSHOTS names.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		t.Skip("SCREENSHOTS names no folder")
	}
	eachPage(t, 360, func(b *tab, what string, width int64, scheme string) {
		b.look(width, max(800, eval[int64](b, `document.documentElement.scrollHeight`)), scheme)
		picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, what+".png"), picture, 0o644); err != nil {
			t.Fatal(err)
		}
	})
}
