package postgres

import (
	"testing"
	"time"
)

// TestSnapshots: a job that becomes visible is due after the last snapshot, or after the one before
// its transaction began.
func TestSnapshots(t *testing.T) {
	at := func(n int) time.Time { return time.Unix(int64(n), 0) }
	var open transactions
	for _, c := range []struct {
		text string
		next int64
		at   int
		want time.Time
	}{
		{"100:103:100,101", 104, 1, time.Time{}}, // 103 may be open
		{"101:106:101,103", 106, 2, time.Time{}}, // 100 has ended, begun at any time
		{"101:107:101,103,106", 108, 3, at(2)},   // only what was begun since has ended
		{"101:110:101,106", 110, 4, time.Time{}}, // 103 has ended
		{"101:115:101,112", 115, 5, at(2)},       // 106 has ended, begun since 2
		{"101:120:101,112", 121, 6, at(5)},
		{"101:125:101", 125, 7, at(4)}, // 112 has ended, begun since 4
		{"125:125:", 126, 8, time.Time{}},
		{"127:127:", 128, 9, at(7)},  // 125 has ended, begun since 7
		{"130:130:", 130, 10, at(8)}, // 127 has ended, begun since 8
		{"131:131:", 131, 11, at(10)},
	} {
		s, err := parseSnapshot(c.text, c.next, at(c.at))
		if err != nil {
			t.Fatal(err)
		}
		if got := open.note(s); !got.Equal(c.want) {
			t.Errorf("%s at %d: due after %v, want %v", c.text, c.at, got, c.want)
		}
	}
	for _, bad := range []string{"", "1:2", "1:x:", "1:2:x", "1:2:1:2", "1:2:"} {
		if _, err := parseSnapshot(bad, 1<<40, at(1)); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}
