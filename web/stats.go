package web

import (
	"context"
	"fmt"
	"time"

	"github.com/errandhq/errand/queue"
)

const (
	// statsInterval is the shortest time between two readings of statistics: workers report them
	// each ten seconds. That of all kinds with their histograms is timesInterval, because it costs
	// most of all.
	statsInterval = 10 * time.Second
	timesInterval = time.Minute
	// A chart reads only its newest minutes again, and all of them after chartReread. A worker that
	// could not report itself in time adds to a minute later.
	chartNewest = 3 * time.Minute
	chartReread = 5 * time.Minute
	// chartMinutes is how many minutes the charts show.
	chartMinutes = 60
	// The size of a chart, in the units of its viewBox.
	barWidth, chartHeight = 10, 80
)

// lastHour reads statistics of the last hour.
func (s source) lastHour(ctx context.Context, f queue.StatsFilter) ([]queue.StatsRecord, error) {
	f.From = hourAgo()
	return s.statistician.Stats(ctx, f)
}

// hourAgo is the first minute of a chart.
func hourAgo() time.Time { return time.Now().Add(-chartMinutes * time.Minute).Truncate(time.Minute) }

// minutes reads the statistics of the last hour by minute. It keeps what it has read. It is not
// safe for concurrent use.
type minutes struct {
	source source
	filter queue.StatsFilter
	last   []queue.StatsRecord // by minute
	allAt  time.Time           // when all of them were read
}

// read returns the statistics. It reads only the newest minutes if it has read all of them lately.
func (m *minutes) read(ctx context.Context) ([]queue.StatsRecord, error) {
	f := m.filter
	f.Step, f.From = time.Minute, hourAgo()
	isAll := len(m.last) == 0 || time.Since(m.allAt) > chartReread
	var known []queue.StatsRecord
	if !isAll {
		newest := m.last[len(m.last)-1].At.Add(-chartNewest)
		for _, s := range m.last {
			if !s.At.Before(f.From) && s.At.Before(newest) {
				known = append(known, s)
			}
		}
		if newest.After(f.From) {
			f.From = newest
		}
	}
	fresh, err := m.source.statistician.Stats(ctx, f)
	if err != nil {
		return nil, err
	}
	if isAll {
		m.allAt = time.Now()
	}
	m.last = append(known, fresh...)
	return m.last, nil
}

// chart is the runs of the last hour, a bar for each minute.
type chart struct {
	Text          string // what it shows, in words
	Width, Height int
	Bars          []bar
	Most          string // the highest number of runs in a minute
}

// bar is a minute: the runs that were done beneath those that failed.
type bar struct{ X, Y, Width, Done, FailedY, Failed int }

// newChart returns the chart, or nil if nothing is known. A minute with failures always shows some.
func newChart(r reading[[]queue.StatsRecord], now time.Time) *chart {
	if r.At.IsZero() {
		return nil
	}
	var all queue.Stats
	var minutes [chartMinutes]queue.Stats
	most := int64(1)
	for _, s := range r.Value {
		all.Add(s.Stats)
		if i := chartMinutes - 1 - int(now.Truncate(time.Minute).Sub(s.At)/time.Minute); i >= 0 && i < chartMinutes {
			minutes[i].Add(s.Stats)
			most = max(most, runsOf(minutes[i]))
		}
	}
	c := &chart{Width: chartMinutes * barWidth, Height: chartHeight, Most: number(most)}
	c.Text = fmt.Sprintf("%s done, %s failed, %s dead, %s lost", number(all.Done), number(all.Failed), number(all.Dead), number(all.Lost))
	if n := runsOf(all); n > 0 {
		c.Text += fmt.Sprintf("; peak: %s a minute; a run took %s and had waited %s on average",
			number(most), duration(all.Ran/time.Duration(n)), duration(all.Waited/time.Duration(n)))
	}
	for i, m := range minutes {
		failed := scale(m.Failed+m.Dead, most)
		done := min(scale(m.Done, most), chartHeight-failed)
		if done+failed > 0 {
			c.Bars = append(c.Bars, bar{i * barWidth, chartHeight - done, barWidth - 2, done, chartHeight - done - failed, failed})
		}
	}
	return c
}

// runsOf returns how many runs there were.
func runsOf(s queue.Stats) int64 { return s.Done + s.Failed + s.Dead }

// scale returns the height of n in a chart whose highest bar is most; at least 2 unless n is 0.
func scale(n, most int64) int {
	if n == 0 {
		return 0
	}
	return max(2, int(n*chartHeight/most))
}

// kindStats are the runs of a kind in the last hour, in words.
type kindStats struct {
	Done, Failed string
	Run, Wait    string // the median and the 95th percentile
}

func kindStatsOf(s queue.Stats) kindStats {
	times := func(h queue.Histogram) string {
		if h.Count() == 0 {
			return "–"
		}
		return duration(h.Quantile(0.5)) + " / " + duration(h.Quantile(0.95))
	}
	return kindStats{number(s.Done), number(s.Failed + s.Dead), times(s.RunTimes), times(s.WaitTimes)}
}
