// Package redistest gives tests a Redis: one node, or a cluster.
//
//	func TestClicks(t *testing.T) {
//		client := redistest.Open(t)
//		q, err := redis.New(t.Context(), client, redis.Options{Namespace: redistest.Namespace()})
//		...
//	}
//
// [Open] returns a client of the one node that all tests of the process share, and [OpenCluster]
// one of a cluster that they share. Each test takes a namespace of its own. [Start] and
// [StartCluster] do the same for programs that are not tests.
//
// The node is the one that REDIS_URL names (redis://host:port), or else one that is started. The
// program that is started is the one that ERRAND_REDIS_SERVER names, such as a valkey-server, or
// else redis-server from PATH or /usr/bin. If there is none, Open and OpenCluster skip the test,
// and fail it if CI is true or ERRAND_REDIS_SERVER is set. Servers that were started have a free
// port of 127.0.0.1, a temporary folder, in memory if there is plenty, and no password. They end
// with the process that started them, however it ends: they run under a shell that waits for the
// end of its standard input. This does not work on Windows.
package redistest
