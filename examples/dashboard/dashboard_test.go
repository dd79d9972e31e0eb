package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestDashboard: without a login nobody sees the dashboard. Ann sees the jobs of the shop, and may
// act on them.
func TestDashboard(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	site, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- run(ctx, "sqlite:"+filepath.Join(t.TempDir(), "shop.db"), "localhost:0", func(url string) { site <- url })
	}()
	var address string
	select {
	case address = <-site:
	case err := <-ended:
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	if page := get(t, browser, address+"/errand/jobs"); !strings.Contains(page, "Log in") {
		t.Errorf("without a login: %s", page)
	}
	response, err := browser.PostForm(address+"/login", url.Values{"name": {"ann"}, "password": {password}})
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	// A list that was slow to read is read again after half a minute, as the page says.
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		page := get(t, browser, address+"/errand/jobs?kind=webhook.deliver")
		if strings.Contains(page, "group <bdi>partner-") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("no job appears: %s", page)
		}
	}
	tax := regexp.MustCompile(`jobs/\d+`).FindString(get(t, browser, address+"/errand/jobs?queue=tax"))
	if page := get(t, browser, address+"/errand/"+tax); !strings.Contains(page, "Cancel the job") || !strings.Contains(page, "Why it does not run") {
		t.Errorf("the page of a job that no worker serves: %s", page)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestSiteURL: the program prints an address that a browser can open.
func TestSiteURL(t *testing.T) {
	for addr, want := range map[string]string{
		"[::]:9000": "http://localhost:9000", "0.0.0.0:80": "http://localhost:80",
		"127.0.0.1:8080": "http://127.0.0.1:8080", "[::1]:8080": "http://[::1]:8080",
	} {
		if got := siteURL(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))); got != want {
			t.Errorf("%s: got %s, want %s", addr, got, want)
		}
	}
}

func get(t *testing.T, browser *http.Client, page string) string {
	t.Helper()
	response, err := browser.Get(page)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
