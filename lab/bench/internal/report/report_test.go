package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/errandhq/errand/lab/bench/internal/result"
)

var update = flag.Bool("update", false, "write the golden files anew")

var header = Header{
	Command: "go run . -run drain",
	Machine: "linux/amd64, 2 cores",
	Servers: []string{"PostgreSQL 15.18, fsync on"},
	Systems: []string{"errand: defaults", "floor: by hand"},
	Rounds:  2,
	Scale:   1,
	Begun:   time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC),
	Took:    95 * time.Second,
	Load:    "0.10",
}

// tables returns everything that a report can show: a scenario without cases and one with cases,
// spreads, both kinds of gaps, targets that are met, missed and unknown, and a series.
func tables() []*result.Table {
	place := func(name, system string) result.Place { return result.Place{Case: name, System: system} }
	figure := func(name string, m result.Metric, v float64) result.Figure {
		return result.Figure{Case: name, Metric: m, Value: v}
	}
	drain := &result.Table{
		Scenario: "drain", Title: "100 jobs & one process", Note: "The clock runs from the first to the last.",
		Chart: []result.Metric{result.Throughput},
		Targets: []result.Target{
			{Of: place("", "errand"), Over: &result.Place{System: "floor"}, Metric: result.Throughput, Factor: 0.85},
			{Of: place("", "errand"), Over: &result.Place{System: "river-best"}, Metric: result.Throughput, Factor: 5},
			{Of: place("", "errand"), Over: &result.Place{System: "asynq"}, Metric: result.Throughput, Factor: 8},
		},
	}
	for round, v := range []float64{80000, 84123} {
		drain.Add(round, "errand", figure("", result.Throughput, v), figure("", result.WAL, 700), figure("", result.Commits, 0.00312))
		drain.Add(round, "floor", figure("", result.Throughput, v*1.25), figure("", result.WAL, 650.4))
		drain.Add(round, "river-best", figure("", result.Throughput, v/5.5))
	}
	drain.Miss(result.Gap{Place: place("", "asynq"), Reason: "redis-server is not installed"})
	drain.Miss(result.Gap{Place: place("", "graphile-best"), Reason: "handlers ran 99 times\nfor 100 jobs", Failed: true})

	latency := &result.Table{Scenario: "latency", Title: "commit to handler", Note: "By one clock.", Chart: []result.Metric{result.P50, result.P99}}
	for _, name := range []string{"10/s", "300/s"} {
		latency.Add(0, "errand", figure(name, result.P50, 1.25), figure(name, result.P99, 4))
		latency.Add(0, "river-default", figure(name, result.P50, 55), figure(name, result.P99, 105.5), figure(name, result.PeakRSS, 22))
	}

	soak := &result.Table{Scenario: "soak", Title: "20 minutes", Note: "Flat.", Series: true, Rounds: 1, Chart: []result.Metric{result.TableSize}}
	for i, name := range []string{"at 1 min", "at 2 min", "last quarter"} {
		soak.Add(0, "errand-delete", figure(name, result.TableSize, float64(10+i)))
	}
	return []*result.Table{drain, latency, soak}
}

func TestGolden(t *testing.T) {
	for name, write := range map[string]func(io.Writer) error{
		"report.txt":  func(w io.Writer) error { return Text(w, header, tables()) },
		"report.md":   func(w io.Writer) error { return Markdown(w, header, tables()) },
		"report.json": func(w io.Writer) error { return JSON(w, tables()) },
		"drain.svg":   func(w io.Writer) error { return SVG(w, tables()[0]) },
		"latency.svg": func(w io.Writer) error { return SVG(w, tables()[1]) },
		"soak.svg":    func(w io.Writer) error { return SVG(w, tables()[2]) },
	} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			if err := write(&got); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name)
			if *update {
				if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("got\n%s\nwant, as in %s (-update writes it),\n%s", got.String(), path, want)
			}
		})
	}
}

// TestJSONIsAnArrayOfFigures checks the names that programs read.
func TestJSONIsAnArrayOfFigures(t *testing.T) {
	var b bytes.Buffer
	if err := JSON(&b, tables()); err != nil {
		t.Fatal(err)
	}
	var records []map[string]any
	if err := json.Unmarshal(b.Bytes(), &records); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"scenario": "latency/300/s", "system": "river-default", "metric": "p50", "unit": "ms",
		"median": 55.0, "min": 55.0, "max": 55.0, "ratio_to_errand": 44.0}
	for _, r := range records {
		if r["scenario"] == want["scenario"] && r["system"] == want["system"] && r["metric"] == want["metric"] {
			for name, value := range want {
				if r[name] != value {
					t.Errorf("%s: got %v, want %v", name, r[name], value)
				}
			}
			return
		}
	}
	t.Errorf("no record of %v in\n%s", want, b.String())
}

func TestJSONOfNothing(t *testing.T) {
	var b bytes.Buffer
	if err := JSON(&b, nil); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != "[]\n" {
		t.Errorf("got %q, want an empty array", got)
	}
}

func TestPicturesAreXML(t *testing.T) {
	for _, table := range tables() {
		var b bytes.Buffer
		if err := SVG(&b, table); err != nil {
			t.Fatal(err)
		}
		d := xml.NewDecoder(&b)
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", table.Scenario, err)
			}
		}
	}
}

func TestPictureOfNothing(t *testing.T) {
	for _, table := range []*result.Table{
		{Scenario: "empty", Chart: []result.Metric{result.P50}},
		{Scenario: "empty", Chart: []result.Metric{result.P50}, Series: true},
	} {
		if err := SVG(io.Discard, table); err != nil {
			t.Error(err)
		}
	}
}

func TestNumber(t *testing.T) {
	for _, c := range []struct {
		value float64
		want  string
	}{
		{0, "0.00"}, {0.00312, "0.0031"}, {0.123, "0.12"}, {9.876, "9.88"}, {45.67, "45.7"}, {123.4, "123"}, {84123.4, "84,123"}, {1234567, "1,234,567"}, {-1234, "-1,234"},
	} {
		if got := number(c.value); got != c.want {
			t.Errorf("number(%v): got %s, want %s", c.value, got, c.want)
		}
	}
}
