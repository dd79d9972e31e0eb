// Package postgrestest gives every test a PostgreSQL database of its own, with
// errand's schema in it.
//
//	func TestSignup(t *testing.T) {
//		db := postgrestest.Open(t) // fresh, migrated, dropped when the test ends
//		...
//	}
//
// [Open] hands out a *sql.DB and [DSN] the connection URL alone. Both are cloned
// from a template database, which costs tens of milliseconds, and belong to one
// server per test process, which is started by the first test that asks for one.
// [Start] is the same server for programs that are no tests.
//
// # Where the server comes from
//
// The first of these that works:
//
//   - url: the server that DATABASE_URL names. Its user must be allowed to create
//     databases; no other database of it is touched, and its settings are its own.
//   - docker: a container of the image postgres:18, or of the version in
//     ERRAND_POSTGRES_VERSION, found locally or pulled, at DOCKER_HOST or the
//     usual socket.
//   - local: initdb and postgres from PATH, or the newest of those in the usual
//     places, such as /usr/lib/postgresql. As root they run as the user postgres or
//     nobody. Of the caller's environment they get PATH, TZ and LD_LIBRARY_PATH
//     only. This way does not exist on Windows.
//
// ERRAND_POSTGRES=url, docker or local allows that one only. Where none works the
// test fails, with an error that says why each did not: it is never skipped.
//
// Servers of the docker and local kind end with the process that started them,
// however it ends, and leave nothing behind: they run beneath a shell that waits
// for the end of its standard input, whose other end only that process has.
// What a process leaves on a server of the url kind, its template at least, the
// next process drops.
//
// Servers started for tests are made for speed: nothing is synced, and the data is
// in memory where there is plenty of it, unless TMPDIR names another place.
package postgrestest
