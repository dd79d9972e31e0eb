// Package browsertest tests the dashboard in Chromium. Its tests are skipped where there is none.
package browsertest
