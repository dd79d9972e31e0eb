package postgrestest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"
)

// containerPort is where the server listens inside the container.
const containerPort docker.Port = "5432/tcp"

// memoryDir is where the container keeps data in memory: see dataParent.
const memoryDir = "/pgdata"

// startDocker runs the official image, or the local image with its name.
func startDocker(ctx context.Context, o Options) (*Server, error) {
	pool, err := dockertest.NewPool("")
	if err != nil {
		return nil, err
	}
	client := pool.Client
	if err := checkDaemon(ctx, client); err != nil {
		return nil, fmt.Errorf("no Docker daemon answers: %w", err)
	}
	image := "postgres:" + cmp.Or(o.Version, os.Getenv("ERRAND_POSTGRES_VERSION"), "18")
	if err := pullImage(ctx, client, image); err != nil {
		return nil, fmt.Errorf("image %s: %w", image, err)
	}
	password := rand.Text()
	host, bind := dockerHost(client)
	id, err := createContainer(ctx, client, containerConfig(image, password, o), hostConfig(bind, o))
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", image, err)
	}
	s, err := runContainer(ctx, client, id, host, password)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("image %s: %w", image, err), remove(client, id))
	}
	s.where = "in Docker container " + id[:12] + ", image " + image
	return s, nil
}

// checkDaemon returns an error unless the daemon answers.
func checkDaemon(ctx context.Context, client *docker.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return client.PingWithContext(ctx)
}

// pullImage pulls the image unless the daemon has it.
func pullImage(ctx context.Context, client *docker.Client, image string) error {
	_, err := client.InspectImage(image)
	if !errors.Is(err, docker.ErrNoSuchImage) {
		return err
	}
	fmt.Fprintln(os.Stderr, "postgrestest: pulling the Docker image", image)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	repository, tag, _ := strings.Cut(image, ":")
	return client.PullImage(docker.PullImageOptions{Repository: repository, Tag: tag, Context: ctx}, docker.AuthConfiguration{})
}

// dockerHost returns the host where a container's ports appear, and the address there to bind them
// to: our own loopback, unless the daemon is elsewhere.
func dockerHost(client *docker.Client) (host, bind string) {
	u, err := url.Parse(client.Endpoint())
	if err != nil || u.Hostname() == "" {
		return "127.0.0.1", "127.0.0.1"
	}
	return u.Hostname(), ""
}

// containerConfig makes the image's own entry point run under superviseScript, whose input closes
// when the first client that attached to it disconnects.
func containerConfig(image, password string, o Options) *docker.Config {
	c := &docker.Config{
		Image: image,
		Env: []string{
			"POSTGRES_USER=tester",
			"POSTGRES_DB=postgres",
			"POSTGRES_PASSWORD=" + password,
			"POSTGRES_HOST_AUTH_METHOD=password",
			"POSTGRES_INITDB_ARGS=" + strings.Join(o.initdbArgs(), " "),
		},
		Entrypoint:   []string{"sh", "-c", "exec 3<&0\n" + superviseScript, "sh", "docker-entrypoint.sh", "postgres"},
		Cmd:          o.args(),
		ExposedPorts: map[docker.Port]struct{}{containerPort: {}},
		Labels:       map[string]string{"errand": "postgrestest"},
		OpenStdin:    true,
		StdinOnce:    true,
		AttachStdin:  true,
		AttachStdout: true,
		AttachStderr: true,
	}
	if !o.Durable {
		c.Env = append(c.Env, "PGDATA="+memoryDir)
	}
	return c
}

// hostConfig makes the daemon remove the container when it has ended.
func hostConfig(bind string, o Options) *docker.HostConfig {
	c := &docker.HostConfig{
		AutoRemove:   true,
		PortBindings: map[docker.Port][]docker.PortBinding{containerPort: {{HostIP: bind}}},
	}
	if !o.Durable {
		c.Tmpfs = map[string]string{memoryDir: "rw"} // half the machine's memory at most
	}
	return c
}

// createContainer returns the ID of a container that has not started yet.
func createContainer(ctx context.Context, client *docker.Client, config *docker.Config, host *docker.HostConfig) (string, error) {
	c, err := client.CreateContainer(docker.CreateContainerOptions{
		Name:       "errand-postgres-" + strings.ToLower(rand.Text()[:8]),
		Config:     config,
		HostConfig: host,
		Context:    ctx,
	})
	if err != nil {
		return "", err
	}
	return c.ID, nil
}

// runContainer attaches to the container, starts it, and waits for the server in it.
func runContainer(ctx context.Context, client *docker.Client, id, host, password string) (*Server, error) {
	p, err := attach(client, id)
	if err != nil {
		return nil, err
	}
	if err := client.StartContainerWithContext(id, nil, ctx); err != nil {
		return nil, errors.Join(err, p.stdin.Close())
	}
	c, err := client.InspectContainerWithContext(id, ctx)
	if err != nil {
		return nil, errors.Join(err, p.stop())
	}
	bound := c.NetworkSettings.Ports[containerPort]
	if len(bound) == 0 {
		return nil, errors.Join(errors.New("the container has no port"), p.stop())
	}
	s := &Server{
		base: baseURL(net.JoinHostPort(host, bound[0].HostPort), password),
		stop: func() error { return errors.Join(p.stop(), remove(client, id)) },
	}
	if err := p.ready(ctx, s.base); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return s, nil
}

// attach connects to the container's input and output.
func attach(client *docker.Client, id string) (*process, error) {
	output := &lastWords{}
	input, stdin := io.Pipe()
	attached := make(chan struct{})
	waiter, err := client.AttachToContainerNonBlocking(docker.AttachToContainerOptions{
		Container:   id,
		InputStream: input, OutputStream: output, ErrorStream: output,
		Stdin: true, Stdout: true, Stderr: true, Stream: true,
		Success: attached,
	})
	if err != nil {
		return nil, err
	}
	<-attached
	attached <- struct{}{}
	p := &process{stdin: stdin, done: make(chan struct{}), log: output.String}
	go func() {
		defer close(p.done)
		_ = waiter.Wait() // what there is to say is in the output
	}()
	return p, nil
}

// remove removes the container, unless the daemon has removed it or is about to.
func remove(client *docker.Client, id string) error {
	err := client.RemoveContainer(docker.RemoveContainerOptions{ID: id, RemoveVolumes: true, Force: true})
	var gone *docker.NoSuchContainer
	var failed *docker.Error
	if errors.As(err, &gone) || errors.As(err, &failed) && failed.Status == http.StatusConflict {
		return nil
	}
	return err
}

// lastWords keeps the last few kilobytes written to it.
type lastWords struct {
	mu   sync.Mutex
	text []byte
}

func (w *lastWords) Write(p []byte) (int, error) {
	const size = 4 << 10
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, p...)
	w.text = w.text[max(0, len(w.text)-size):]
	return len(p), nil
}

func (w *lastWords) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.TrimSpace(string(w.text))
}
