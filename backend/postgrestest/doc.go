// Package postgrestest gives every test a PostgreSQL database of its own, with errand's schema in
// it.
//
//	func TestSignup(t *testing.T) {
//		db := postgrestest.Open(t) // fresh, migrated, dropped when the test ends
//		...
//	}
//
// [Open] returns a *sql.DB, [DSN] only the connection URL. [Empty] and [EmptyDSN] do the same for a
// database that your test migrates itself. Each database is cloned from a template, which takes
// tens of milliseconds. There is one server for each test process; the first test that needs it
// starts it. [Start] does the same for programs that are not tests.
//
// # Where the server comes from
//
// The first of these that works:
//
//   - url: the server that DATABASE_URL names, as postgres://user:password@host:port/database. Its
//     user must be allowed to create databases. No other database of the server is touched, and its
//     settings stay as they are. With file:/a/path, the URL is in that file. Then go test can take
//     results from its cache although the port has changed: it compares DATABASE_URL alone.
//   - docker: a container of the image postgres:18, or of the version in ERRAND_POSTGRES_VERSION,
//     found locally or pulled, at DOCKER_HOST or the usual socket.
//   - local: initdb and postgres from PATH, or the newest of those in the usual places, such as
//     /usr/lib/postgresql. If this process is root's, they run as the user postgres or nobody. Of
//     this process' environment they get only PATH, TZ and LD_LIBRARY_PATH. This way does not exist
//     on Windows.
//
// ERRAND_POSTGRES=url, docker or local allows only that one. If none works, the test fails with an
// error that says why each did not; it is never skipped.
//
// Servers of the docker and local kind end with the process that started them, however it ends, and
// leave nothing behind: they run under a shell that waits for the end of its standard input, and
// only that process holds the other end. On a server of the url kind a process leaves at least its
// template; the next process drops it.
//
// These servers are made for speed: they do not sync, and their data is in memory if there is
// plenty of it, unless TMPDIR names another place.
package postgrestest
