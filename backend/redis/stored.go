package redis

import (
	"context"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/queue"
)

// Stored returns Options with the namespace, and with the Partitions and Spread that are stored for
// it. They are 0 if no [New] has used the namespace yet. It is for tools, which work with any
// namespace as it is; a program says what it wants. "" means the namespace "errand".
func Stored(ctx context.Context, client rueidis.Client, namespace string) (o Options, err error) {
	checked, err := Options{Namespace: namespace}.checked()
	if err != nil {
		return o, err
	}
	o.Namespace = checked.Namespace
	fields, err := client.Do(ctx, client.B().Hgetall().Key(configKey(o.Namespace)).Build()).AsStrMap()
	if err != nil {
		return o, failed("read options", err)
	}
	for name, value := range map[string]*int{"partitions": &o.Partitions, "spread": &o.Spread} {
		text, ok := fields[name]
		if !ok {
			continue
		}
		if *value, err = strconv.Atoi(text); err != nil {
			return o, &queue.SetupError{Problem: "redis: the namespace " + strconv.Quote(o.Namespace) + " has no valid " + name, Err: err}
		}
	}
	return o, nil
}

// configKey returns the key of what is fixed for a namespace.
func configKey(namespace string) string { return "{" + namespace + "}:config" }
