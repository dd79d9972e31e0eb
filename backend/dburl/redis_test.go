package dburl_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/errandhq/errand/backend/dburl"
	"github.com/errandhq/errand/backend/redis"
	"github.com/errandhq/errand/backend/redis/redistest"
	"github.com/errandhq/errand/queue"
)

// redisURL returns the URL of a namespace that nothing has used.
func redisURL(t *testing.T) string {
	t.Helper()
	return nodeURL(t) + "?namespace=" + redistest.Namespace()
}

func nodeURL(t *testing.T) string {
	t.Helper()
	client := redistest.Open(t)
	if url := os.Getenv("REDIS_URL"); url != "" {
		return url
	}
	for addr := range client.Nodes() {
		return "redis://" + addr
	}
	return ""
}

// startRedis starts a server with settings, and returns its address.
func startRedis(t *testing.T, settings map[string]string) string {
	t.Helper()
	redistest.Open(t) // skips the test if there is no redis-server
	s, err := redistest.Start(t.Context(), redistest.Options{Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.Addrs[0]
}

// TestRedisNamespace: a namespace keeps the partitions and the spread that it has, and is made only
// by a handle that may do so.
func TestRedisNamespace(t *testing.T) {
	url := redisURL(t)
	for _, o := range []dburl.Options{{MustExist: true}, {ReadOnly: true}} {
		d, err := dburl.Open(url, o)
		if d != nil || !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "no program has used this namespace yet") {
			t.Errorf("Open of a new namespace with %+v: got %v, %v, want %v", o, d, err, fs.ErrNotExist)
		}
	}
	open(t, url+"&partitions=4&spread=2&durable=1")
	d := open(t, url)
	if d.Scheme != dburl.Redis || !strings.HasPrefix(d.Description, "Redis namespace test-") || d.DB != nil {
		t.Errorf("got %s, %s, %v", d.Scheme, d.Description, d.DB)
	}
	if _, ok := d.Queue.(*redis.Backend); !ok {
		t.Errorf("got a %T, want a *redis.Backend", d.Queue)
	}
	open(t, url+"&partitions=4&spread=2")
	_, err := dburl.Open(url+"&partitions=8", dburl.Options{})
	if _, ok := errors.AsType[*queue.SetupError](err); !ok || !strings.Contains(err.Error(), "has partitions 4, and this program wants 8") {
		t.Errorf("with other partitions: got error %v, want a SetupError", err)
	}
	_, err = dburl.Open(nodeURL(t)+"?namespace=a%20b", dburl.Options{})
	if e, ok := errors.AsType[*queue.InvalidError](err); !ok || e.Field != "URL" || !strings.Contains(e.Problem, `Options.Namespace: "a b": letters`) {
		t.Errorf("a bad namespace: got error %v, want an InvalidError of the URL", err)
	}
}

// TestRedisUser: who connects, and that no error has the password.
func TestRedisUser(t *testing.T) {
	t.Setenv("REDISCLI_AUTH", "")
	addr := startRedis(t, nil)
	setPassword(t, addr, "sec:re/t@%")
	admin := open(t, "redis://:sec%3Are%2Ft%40%25@"+addr)
	open(t, "redis://default:sec:re%2Ft%40%25@"+addr+"/0")
	if err := admin.Migrate(t.Context()); err != nil {
		t.Error(err)
	}
	for _, url := range []string{"redis://" + addr, "redis://:wrongsecret@" + addr, "redis://secret@" + addr, "redis://u:wrongsecret@" + addr} {
		d, err := dburl.Open(url, dburl.Options{})
		if d != nil || err == nil || !strings.HasPrefix(err.Error(), "dburl: Redis namespace errand at "+addr+": ") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, %v, want an error without the password", url, d, err)
		}
	}
	t.Setenv("REDISCLI_AUTH", "sec:re/t@%")
	open(t, "redis://"+addr)
}

func setPassword(t *testing.T, addr, password string) {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	set := client.B().ConfigSet().ParameterValue().ParameterValue("requirepass", password).Build()
	if err := client.Do(t.Context(), set).Error(); err != nil {
		t.Fatal(err)
	}
}

// TestRedisCluster: some nodes of a cluster are enough. Hosts that are no cluster are an error.
func TestRedisCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	var hosts []string
	for addr := range redistest.OpenCluster(t).Nodes() {
		hosts = append(hosts, addr)
	}
	d := open(t, "redis://"+strings.Join(hosts[:2], ",")+"?namespace="+redistest.Namespace())
	jobs := make([]*queue.Job, 20)
	for i := range jobs {
		jobs[i] = greeting.New("hello")
		jobs[i].Queue = string(rune('a' + i)) // they are on all masters
	}
	if err := d.Queue.Enqueue(t.Context(), nil, jobs...); err != nil {
		t.Error(err)
	}
	one, two := startRedis(t, nil), startRedis(t, nil)
	_, err := dburl.Open("redis://"+one+","+two, dburl.Options{})
	if _, ok := errors.AsType[*queue.InvalidError](err); !ok || !strings.Contains(err.Error(), "several hosts are nodes of a cluster, and these are none") {
		t.Errorf("two servers that are no cluster: got error %v, want an InvalidError", err)
	}
}

// TestRedisUnreachable: Open ends where nobody answers.
func TestRedisUnreachable(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if d, err := dburl.Open("redis://"+silent.Addr().String(), dburl.Options{ConnectTimeout: 50 * time.Millisecond}); err == nil {
		t.Errorf("got %v from a server that says nothing, want an error", d)
	}
}

// TestRedisTLS: with rediss: both sides are recognized by their certificates.
func TestRedisTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writeCertificate(t, cert, key)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	secure := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(secure)
	plain := startRedis(t, map[string]string{"tls-port": port, "tls-cert-file": cert, "tls-key-file": key, "tls-ca-cert-file": cert})
	mine := "&cert=" + cert + "&key=" + key
	d := open(t, "rediss://"+secure+"?cacert="+cert+mine)
	if err := d.Queue.Enqueue(t.Context(), nil, greeting.New("hello")); err != nil {
		t.Error(err)
	}
	for url, wait := range map[string]time.Duration{
		"rediss://" + secure + "?cacert=" + cert:       30 * time.Second, // the server ends it
		"rediss://" + plain + "?cacert=" + cert + mine: 200 * time.Millisecond,
		"redis://" + secure:                            200 * time.Millisecond,
	} {
		if d, err := dburl.Open(url, dburl.Options{ConnectTimeout: wait}); d != nil || err == nil {
			t.Errorf("%s: got %v, %v, want an error", url, d, err)
		}
	}
	_, err = dburl.Open("rediss://"+secure+"?namespace=errand"+mine, dburl.Options{})
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); !ok {
		t.Errorf("an unknown authority: got error %v, want an x509.UnknownAuthorityError", err)
	}
	bad := filepath.Join(dir, "bad.pem")
	if err := os.WriteFile(bad, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := dburl.Open("rediss://"+secure+"?cacert="+bad, dburl.Options{}); err == nil || !strings.Contains(err.Error(), "no certificate in PEM") {
		t.Errorf("a cacert that is none: got error %v", err)
	}
}

// writeCertificate makes a certificate of 127.0.0.1 that has signed itself.
func writeCertificate(t *testing.T, cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
