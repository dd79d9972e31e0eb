package browser

import (
	"compress/gzip"
	"context"
	"errors"
	"html"
	"io"
	"regexp"
)

var assetLink = regexp.MustCompile(`(?:href|src)="[./]*(assets/[^"]+)"`)

// AssetSize returns how many bytes all files that the first page needs take, compressed by gzip.
func AssetSize(ctx context.Context, root string) (int, error) {
	b, err := newBrowser(root)
	if err != nil {
		return 0, err
	}
	defer b.close()
	page, err := b.get(ctx, "", "")
	if err != nil {
		return 0, err
	}
	links := assetLink.FindAllStringSubmatch(page.body, -1)
	if len(links) == 0 {
		return 0, errors.New("the first page needs no files")
	}
	var size counter
	for _, link := range links {
		a, err := b.get(ctx, html.UnescapeString(link[1]), "")
		if err != nil {
			return 0, err
		}
		w := gzip.NewWriter(&size)
		if _, err := io.WriteString(w, a.body); err != nil {
			return 0, err
		}
		if err := w.Close(); err != nil {
			return 0, err
		}
	}
	return int(size), nil
}

// counter counts the bytes that are written to it.
type counter int

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}
