package server

import "testing"

func TestWithParameter(t *testing.T) {
	got, err := WithParameter("postgres://u:p@h:1/db?sslmode=disable", "plan_cache_mode", "force_generic_plan")
	if want := "postgres://u:p@h:1/db?plan_cache_mode=force_generic_plan&sslmode=disable"; err != nil || got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	if _, err := WithParameter("postgres://h:port/db", "a", "b"); err == nil {
		t.Error("of a bad URL: got nil, want an error")
	}
}
