package cron_test

import (
	"archive/zip"
	"go/build"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// embedded is the name of the data that time/tzdata embeds: it is made from this file.
const embedded = "lib/time/zoneinfo.zip"

// zoneData returns the time zone databases of this machine: the one of Go, and the host's if it has
// one. Go's has no times after the last irregular change of a zone, only a rule. The host's often
// has each change until 2037.
func zoneData(t *testing.T) map[string]fs.FS {
	t.Helper()
	r, err := zip.OpenReader(filepath.Join(build.Default.GOROOT, embedded))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	all := map[string]fs.FS{"embedded": r}
	const host = "/usr/share/zoneinfo"
	if _, err := os.Stat(host); err == nil {
		all["host"] = os.DirFS(host)
	}
	return all
}

func loadZone(t *testing.T, data fs.FS, name string) *time.Location {
	t.Helper()
	text, err := fs.ReadFile(data, name)
	if err != nil {
		t.Fatal(err)
	}
	loc, err := time.LoadLocationFromTZData(name, text)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// TestFiftyYears walks through the times from 2006 to 2060. A daily time comes on each local day
// once, a yearly one in each year, and an hourly one each hour. In leap years, Time.ZoneBounds of
// Go 1.26 ends before its time on the last day: https://go.dev/issue/81583.
func TestFiftyYears(t *testing.T) {
	const first, last = 2006, 2060
	for kind, data := range zoneData(t) {
		for _, name := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Asia/Kolkata"} {
			loc := loadZone(t, data, name)
			daily, yearly, hourly := parse(t, "30 12 * * *"), parse(t, "@yearly"), parse(t, "0 * * * *")
			at := time.Date(first, 1, 1, 0, 0, 0, 0, loc)
			for day := 1; at.Year() <= last; day++ {
				want := time.Date(first, 1, day, 12, 30, 0, 0, loc)
				if at = daily.Next(at); !at.Equal(want) {
					t.Fatalf("%s data of %s: daily time is %v, want %v", kind, name, at, want)
				}
			}
			at = time.Date(first, 1, 1, 0, 0, 0, 0, loc)
			for year := first + 1; year <= last; year++ {
				want := time.Date(year, 1, 1, 0, 0, 0, 0, loc)
				if at = yearly.Next(at); !at.Equal(want) {
					t.Fatalf("%s data of %s: yearly time is %v, want %v", kind, name, at, want)
				}
				for hour := want.AddDate(0, 0, -2); hour.Before(want.AddDate(0, 0, 2)); hour = hour.Add(time.Hour) {
					if next := hourly.Next(hour); !next.Equal(hour.Add(time.Hour)) {
						t.Fatalf("%s data of %s: hourly time after %v is %v", kind, name, hour, next)
					}
				}
			}
		}
	}
}
