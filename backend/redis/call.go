package redis

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/queue"
)

//go:embed lua/*.lua
var sources embed.FS

// shared are the files of the library that all others may use. Each may use those before it.
var shared = []string{"lib", "rules", "index", "lines", "outcome", "rates", "enqueue", "receive", "lease"}

// blocks are further files of the library, each of which may use those before it in its block. Lua
// has at most 200 local names at a time, and those of a block end with it.
var blocks = [][]string{
	{"take", "turns", "claim"}, {"settle"}, {"wait"}, {"reassign"}, {"aside"}, {"inspect", "control", "edit", "stats", "fleet", "prune"},
	{"ops"}, {"schedule"}, {"ruler"}, {"results"},
}

// library is the code that a server loads. Its name and those of its functions end with version, so
// that programs with different code share a server.
var library, version = build()

func build() (code, version string) {
	var all strings.Builder
	writeParts(&all, shared)
	for _, block := range blocks {
		all.WriteString("do\n")
		writeParts(&all, block)
		all.WriteString("end\n")
	}
	sum := sha256.Sum256([]byte(all.String()))
	version = hex.EncodeToString(sum[:6])
	return "#!lua name=errand_" + version + "\n" + strings.ReplaceAll(all.String(), "VERSION", version), version
}

// writeParts writes files of the library.
func writeParts(all *strings.Builder, parts []string) {
	for _, part := range parts {
		text, err := sources.ReadFile("lua/" + part + ".lua")
		if err != nil {
			panic(err) // the file is embedded
		}
		all.Write(text)
	}
}

// command builds a call of a function on a partition.
func (b *Backend) command(function string, p int, args []string) rueidis.Completed {
	name, key := "errand_"+function+"_"+version, b.tags[p]+"meta"
	if b.opts.ReadOnly { // the server refuses functions that write
		return b.client.B().FcallRo().Function(name).Numkeys(1).Key(key).Arg(args...).Build()
	}
	return b.client.B().Fcall().Function(name).Numkeys(1).Key(key).Arg(args...).Build()
}

// errReadOnly is the error of a backend with [Options].ReadOnly that is asked to write.
var errReadOnly = errors.New("this backend only reads: Options.ReadOnly is set")

// call calls a function on a partition.
func (b *Backend) call(ctx context.Context, function string, p int, args ...string) (rueidis.RedisMessage, error) {
	results := b.callAll(ctx, function, []int{p}, [][]string{args})
	return results[0].ToMessage()
}

// callAll calls a function on several partitions at once. It returns a result for each.
func (b *Backend) callAll(ctx context.Context, function string, partitions []int, args [][]string) []rueidis.RedisResult {
	results := make([]rueidis.RedisResult, len(partitions))
	b.reopener.wait(ctx)
	b.send(ctx, function, partitions, args, results, func(rueidis.RedisResult) bool { return true })
	end := time.Now().Add(patience)
	for pause := firstPause; anyOf(results, isRefused); pause = min(2*pause, longestPause) {
		if anyOf(results, isMissing) {
			if err := b.load(ctx); isReplica(err) {
				b.reopen(ctx)
			} else if err != nil {
				return fill(results, rueidis.NewErrorResult(err))
			}
		}
		if anyOf(results, func(r rueidis.RedisResult) bool { return isReplica(r.Error()) }) {
			b.reopen(ctx)
		}
		if time.Now().After(end) || !sleep(ctx, pause) {
			return results
		}
		b.send(ctx, function, partitions, args, results, isRefused)
	}
	return results
}

const (
	// patience is how long a call is repeated that a server refuses: see isRefused.
	patience     = 10 * time.Second
	firstPause   = 5 * time.Millisecond
	longestPause = 200 * time.Millisecond
)

// sleep waits for d, and reports whether ctx has not ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// isRefused reports whether a call has not run and may be repeated: the server does not have the
// function, its slot moves, it is a replica, or another script has run for seconds (BUSY).
func isRefused(r rueidis.RedisResult) bool {
	e, ok := rueidis.IsRedisErr(r.Error())
	if !ok {
		return false
	}
	_, isMoved := e.IsMoved()
	_, isAsk := e.IsAsk()
	return isMoved || isAsk || e.IsTryAgain() || isReplica(e) || isBusy(r) || isMissing(r)
}

// isBusy reports whether a server has refused a command because another script has run for seconds.
func isBusy(r rueidis.RedisResult) bool {
	e, ok := rueidis.IsRedisErr(r.Error())
	return ok && strings.HasPrefix(e.Error(), "BUSY ")
}

// ask sends a command, and again while the server is busy or a replica.
func (b *Backend) ask(ctx context.Context, c rueidis.CoreClient, build func() rueidis.Completed) rueidis.RedisResult {
	end := time.Now().Add(patience)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		r := c.Do(ctx, build())
		isOld := isReplica(r.Error())
		if isOld {
			b.reopen(ctx)
		}
		if !isOld && !isBusy(r) || time.Now().After(end) || !sleep(ctx, pause) {
			return r
		}
	}
}

// send makes the calls whose results so far are to be replaced.
func (b *Backend) send(ctx context.Context, function string, partitions []int, args [][]string, results []rueidis.RedisResult, replaces func(rueidis.RedisResult) bool) {
	var commands []rueidis.Completed
	var of []int
	for i, p := range partitions {
		if replaces(results[i]) {
			commands = append(commands, b.command(function, p, args[i]))
			of = append(of, i)
		}
	}
	do := b.do
	if mustLast(function) && b.opts.Durable > 0 {
		do = b.doDurably
	}
	for i, r := range do(ctx, commands) {
		results[of[i]] = r
	}
}

// mustLast reports whether a function writes jobs that its caller does not have, sets them aside
// for a caller who enqueues them elsewhere, or writes rules or schedules.
func mustLast(function string) bool {
	switch function {
	case "enqueue", "receive", "fire", "aside", "rule", "change_schedules":
		return true
	}
	return false
}

// do sends commands at once.
func (b *Backend) do(ctx context.Context, commands []rueidis.Completed) []rueidis.RedisResult {
	if len(commands) == 1 {
		return []rueidis.RedisResult{b.client.Do(ctx, commands[0])}
	}
	return b.client.DoMulti(ctx, commands...)
}

// onEach calls a function on every partition, with the same arguments. It returns a result for
// each.
func (b *Backend) onEach(ctx context.Context, function string, args ...string) []rueidis.RedisResult {
	partitions, all := make([]int, len(b.tags)), make([][]string, len(b.tags))
	for p := range b.tags {
		partitions[p], all[p] = p, args
	}
	return b.callAll(ctx, function, partitions, all)
}

// messages returns the answers, or the first error.
func messages(results []rueidis.RedisResult) ([]rueidis.RedisMessage, error) {
	all := make([]rueidis.RedisMessage, len(results))
	for i, r := range results {
		m, err := r.ToMessage()
		if err != nil {
			return nil, err
		}
		all[i] = m
	}
	return all, nil
}

func anyOf(results []rueidis.RedisResult, is func(rueidis.RedisResult) bool) bool {
	for _, r := range results {
		if is(r) {
			return true
		}
	}
	return false
}

// fill puts r in the place of the results of functions that were missing.
func fill(results []rueidis.RedisResult, r rueidis.RedisResult) []rueidis.RedisResult {
	for i := range results {
		if isMissing(results[i]) {
			results[i] = r
		}
	}
	return results
}

// isMissing reports whether the server does not have the function: it is new, or was flushed.
func isMissing(r rueidis.RedisResult) bool {
	e, ok := rueidis.IsRedisErr(r.Error())
	return ok && strings.Contains(e.Error(), "Function not found")
}

// load loads the library on every master. It succeeds if one of them has it.
func (b *Backend) load(ctx context.Context) error {
	var errs []error
	loaded := false
	for _, node := range b.client.Nodes() {
		err := node.Do(ctx, node.B().FunctionLoad().Replace().FunctionCode(library).Build()).Error()
		if loaded = loaded || err == nil; err != nil {
			errs = append(errs, err) // a replica gets it from its master
		}
	}
	if loaded {
		return nil
	}
	if len(errs) == 1 && isReplica(errs[0]) {
		return errs[0]
	}
	return &queue.SetupError{Problem: "redis: the server cannot load errand's functions (it takes Redis 7, and the rights in docs/redis.md)", Err: errors.Join(errs...)}
}

// isUnanswered reports whether a call may have taken effect although it has failed: no server has
// answered it, and it may have been sent.
func isUnanswered(err error) bool {
	if errors.Is(err, errWritten) {
		return true
	}
	if _, ok := rueidis.IsRedisErr(err); ok {
		return false
	}
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return false
	}
	if _, ok := errors.AsType[*queue.SetupError](err); ok {
		return false
	}
	return !errors.Is(err, rueidis.ErrNoSlot) && !errors.Is(err, rueidis.ErrNoAddr)
}
