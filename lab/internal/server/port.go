package server

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// FreePort returns a free TCP port that stays free while the server is down. It is below the range
// of ephemeral ports. A client that connects to an unused port inside that range can get the same
// port itself. Then it talks to itself and occupies the port.
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
