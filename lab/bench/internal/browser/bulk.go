package browser

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Bulk is an action on many jobs, as a person does it: look at the preview, confirm, and go on
// until the dashboard says that it is done.
type Bulk struct {
	browser *browser
	fields  url.Values // of the form that is sent next; nil when it is done
	Changed int        // jobs, as far as the dashboard has said
}

// NewBulk looks at the preview of an action, again each second while its jobs are being counted,
// and types the number of jobs that it shows. path is relative to the dashboard's root.
func NewBulk(ctx context.Context, root, path string) (*Bulk, error) {
	b, err := newBrowser(root)
	if err != nil {
		return nil, err
	}
	a, err := b.get(ctx, path, "")
	for err == nil && isAwaiting(a.body) {
		sleep(ctx, time.Second)
		a, err = b.get(ctx, path, "")
	}
	if err != nil {
		return nil, err
	}
	bulk := &Bulk{browser: b, fields: formIn(a.body)}
	if bulk.fields == nil {
		return nil, errors.New("the preview has no form")
	}
	if strings.Contains(a.body, `name="typed"`) {
		bulk.fields.Set("typed", bulk.fields.Get("count"))
	}
	bulk.fields.Set("reason", "the benchmark")
	return bulk, nil
}

// IsDone reports whether the dashboard has said that the action is done.
func (b *Bulk) IsDone() bool { return b.fields == nil }

// changedText is how the dashboard says how many jobs it has changed.
var changedText = regexp.MustCompile(`class="notice">([\d,\x{202f} ]+) jobs? changed`)

// Step sends the form once. After an error it can be called again, and sends the same form.
func (b *Bulk) Step(ctx context.Context) error {
	a, err := b.browser.post(ctx, "bulk", b.fields)
	if err != nil {
		return err
	}
	m := changedText.FindStringSubmatch(a.body)
	if m == nil {
		return fmt.Errorf("the answer does not say how many jobs were changed: %.2000s", a.body)
	}
	digits := regexp.MustCompile(`\D`).ReplaceAllString(m[1], "")
	if b.Changed, err = strconv.Atoi(digits); err != nil {
		return err
	}
	b.fields = formIn(a.body)
	return nil
}

var (
	postForm    = regexp.MustCompile(`(?s)<form method="post" action="[./]*bulk".*?</form>`)
	hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)
)

// formIn returns the hidden fields of the form for the action, or nil if the page has none.
func formIn(page string) url.Values {
	form := postForm.FindString(page)
	if form == "" {
		return nil
	}
	fields := make(url.Values)
	for _, m := range hiddenField.FindAllStringSubmatch(form, -1) {
		fields.Set(m[1], html.UnescapeString(m[2]))
	}
	return fields
}
