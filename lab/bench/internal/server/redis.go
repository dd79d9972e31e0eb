package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/errandhq/errand/lab/internal/process"
	"github.com/errandhq/errand/lab/internal/server"
)

// Redis is asynq's server. It writes nothing to disk: that is its fastest setting, and promises
// less than the others.
type Redis struct {
	Address     string
	Description string
	command     *exec.Cmd
	input       io.Closer
	dir         string
	client      *redis.Client
	pid         int
}

// redisScript runs redis-server in the directory $1 at the port $2 until its input ends. The input
// ends when this program has ended, for whatever reason.
const redisScript = `
cd "$1" || exit
redis-server --bind 127.0.0.1 --port "$2" --save "" --appendonly no >/dev/null 2>&1 </dev/null &
echo $!
cat >/dev/null
kill $!
wait`

func startRedis(ctx context.Context) (*Redis, error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, errors.New("redis-server is not installed")
	}
	port, err := server.FreePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "errand-redis-")
	if err != nil {
		return nil, err
	}
	r := &Redis{Address: net.JoinHostPort("127.0.0.1", port), dir: dir}
	if err := r.start(ctx, port); err != nil {
		return nil, errors.Join(fmt.Errorf("redis-server: %w", err), r.close())
	}
	return r, nil
}

func (r *Redis) start(ctx context.Context, port string) error {
	r.command = exec.Command("/bin/sh", "-c", redisScript, "sh", r.dir, port)
	input, err := r.command.StdinPipe()
	if err != nil {
		return err
	}
	r.input = input
	output, err := r.command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := r.command.Start(); err != nil {
		return err
	}
	if _, err := fmt.Fscan(output, &r.pid); err != nil {
		return err
	}
	r.client = redis.NewClient(&redis.Options{Addr: r.Address})
	info, err := r.ready(ctx)
	if err != nil {
		return err
	}
	r.Description = "Redis " + version(info) + ", nothing written to disk"
	return nil
}

// ready waits until the server answers, and returns its INFO.
func (r *Redis) ready(ctx context.Context) (info string, err error) {
	for range 100 {
		if info, err = r.client.Info(ctx, "server").Result(); err == nil {
			return info, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return "", err
}

func version(info string) string {
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, "redis_version:"); ok {
			return strings.TrimSpace(v)
		}
	}
	return "of unknown version"
}

func (r *Redis) wipe(ctx context.Context) error { return r.client.FlushAll(ctx).Err() }

func (r *Redis) read() Reading {
	used, ok := process.ServerCPU(r.pid)
	return Reading{CPU: used, Timed: ok}
}

func (r *Redis) close() error {
	var errs []error
	if r.client != nil {
		errs = append(errs, r.client.Close())
	}
	if r.input != nil {
		r.input.Close()
	}
	if r.command != nil && r.command.Process != nil {
		_ = r.command.Wait() // fails: a signal ended redis-server
	}
	return errors.Join(append(errs, os.RemoveAll(r.dir))...)
}
