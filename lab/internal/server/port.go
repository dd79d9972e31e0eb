package server

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// FreePort returns a TCP port that is free now and stays so while the server is
// down: it is below the range that clients' own ends are numbered from. A client that
// calls a port within it at which nobody listens may be given the very same number,
// and then talks to itself, and has the port.
func FreePort() (string, error) {
	const first, last = 15000, 30000
	var err error
	for range 100 {
		port := strconv.Itoa(first + rand.IntN(last-first))
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", port)); err == nil {
			return port, l.Close()
		}
	}
	return "", fmt.Errorf("no free port: %w", err)
}
