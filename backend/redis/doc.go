// Package redis is errand's backend for Redis 7 and later and Valkey 8 and later, on one node or on
// a cluster.
//
// It works through a [rueidis.Client] that the caller has opened:
//
//	client, err := rueidis.NewClient(rueidis.ClientOption{
//		InitAddress:      []string{"redis.example:6379"}, // of a cluster, some of the nodes
//		DisableCache:     true,
//		ConnWriteTimeout: 3 * time.Second, // after which a server that hangs is given up
//	})
//	q, err := redis.New(ctx, client, redis.Options{})
//
// Each operation is a call of a function that New has loaded into the servers, so it takes effect
// as a whole or not at all. The client never repeats such a call by itself.
//
// # What is not promised
//
// Redis copies to its replicas after it has answered. When a master dies, jobs of the last moments
// may be lost although Enqueue has returned, and outcomes may be lost, so that jobs run again.
// [Options].Durable makes Enqueue wait for replicas. That narrows the loss, and is no consensus.
// What survives a power cut is what appendfsync says.
//
// There are no SQL transactions: a [queue.DB] other than nil is an [*queue.InvalidError].
//
// # Partitions
//
// A namespace has a fixed number of partitions. All keys of one are in one slot, so on one master.
// A queue is in one partition, chosen by its name, or in Spread of them. Jobs with a Key, and
// ordered jobs of a group, then have a partition by that; other jobs go to each in turn. A job's ID
// tells its partition.
//
// In one partition the order of claims is exact. In several it is exact within each: a job may be
// claimed before one of a lower priority or an earlier time in another partition. An Enqueue, and a
// Settle, whose jobs are in several partitions is not atomic: see their comments. A key of an
// ordered job is an [*queue.InvalidError] if Spread is above 1, and so is a [queue.Rule] that does
// more than pause, or say what becomes of dead jobs.
//
// # Memory
//
// All jobs are in memory. Set maxmemory: when it is reached, the server refuses Enqueue, and
// claims, outcomes and pruning go on. New refuses servers whose maxmemory-policy may delete keys.
// Completed jobs count, too: a negative [queue.Retention].Completed deletes them at once.
package redis
