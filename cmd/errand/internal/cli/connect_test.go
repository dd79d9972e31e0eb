package cli

import (
	"testing"
)

// TestWithoutPassword: what is printed of a URL has no password, and names the same database.
func TestWithoutPassword(t *testing.T) {
	for text, want := range map[string]string{
		"postgres://u@db.test/shop":                                    "postgres://u@db.test/shop",
		"postgres://u:secret@db.test:5433/shop?sslmode=require":        "postgres://u@db.test:5433/shop?sslmode=require",
		"postgres://u%40x:se%40cret@db.test/shop":                      "postgres://u%40x@db.test/shop",
		"postgres:///shop?host=/run/pg&password=secret":                "postgres:///shop?host=%2Frun%2Fpg",
		"postgres://u:secret@one.test:1,two.test:2/shop?sslpassword=p": "postgres://u@one.test:1,two.test:2/shop",
		"redis://:se%40cret@db.test?namespace=a":                       "redis://@db.test?namespace=a",
		"rediss://u:secret@one.test:1,two.test:2?namespace=a":          "rediss://u@one.test:1,two.test:2?namespace=a",
		"redis+sentinel://one.test/main?sentinel-password=p":           "redis+sentinel://one.test/main",
		"redis://db.test":   "redis://db.test",
		"sqlite:a.db":       "sqlite:a.db",
		"sqlite:///var/a.b": "sqlite:///var/a.b",
	} {
		if got := withoutPassword(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
