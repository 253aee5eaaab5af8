package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// answer is an error that Redis answered.
type answer string

func (a answer) Error() string { return string(a) }
func (answer) RedisError()     {}

// What the error of a command in a script looks like: Redis 6 puts the script's
// error before it, Redis 7 puts the place behind it.
const (
	wrapped6 = "ERR Error running script (call to f_288e1e660d5d2829548372e9ceca9b22bbb1c5f6): @user_script:47: "
	refused6 = wrapped6 + "@user_script: 47: "
	place7   = " script: 288e1e660d5d2829548372e9ceca9b22bbb1c5f6, on @user_script:47."
)

// The texts are those of real servers, 6.2.14, 7.0.15 and 8.2.3. Which of them
// passes by itself does not depend on whether a command or a script got it, nor
// on the version.
func TestAnswers(t *testing.T) {
	for text, want := range map[string]struct {
		code string
		is   error
	}{
		"READONLY You can't write against a read only replica.":                                                {"READONLY ", engine.ErrUnavailable},
		refused6 + "-READONLY You can't write against a read only replica.":                                    {"READONLY ", engine.ErrUnavailable},
		"READONLY You can't write against a read only replica." + place7:                                       {"READONLY ", engine.ErrUnavailable},
		refused6 + "-OOM command not allowed when used memory > 'maxmemory'.":                                  {"OOM ", engine.ErrUnavailable},
		"OOM command not allowed when used memory > 'maxmemory'." + place7:                                     {"OOM ", engine.ErrUnavailable},
		refused6 + "-NOREPLICAS Not enough good replicas to write.":                                            {"NOREPLICAS ", engine.ErrUnavailable},
		"NOREPLICAS Not enough good replicas to write." + place7:                                               {"NOREPLICAS ", engine.ErrUnavailable},
		refused6 + "-MISCONF Redis is configured to save RDB snapshots, but":                                   {"MISCONF ", engine.ErrUnavailable},
		"MISCONF Redis is configured to save RDB snapshots, but" + place7:                                      {"MISCONF ", engine.ErrUnavailable},
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":                     {"MASTERDOWN ", engine.ErrUnavailable},
		"LOADING Redis is loading the dataset in memory":                                                       {"LOADING ", engine.ErrUnavailable},
		"CLUSTERDOWN Hash slot not served":                                                                     {"CLUSTERDOWN ", engine.ErrUnavailable},
		"CLUSTERDOWN The cluster is down and only accepts read commands":                                       {"CLUSTERDOWN ", engine.ErrUnavailable},
		"MOVED 5061 127.0.0.1:6379":                                                                            {"MOVED ", engine.ErrUnavailable},
		refused6 + "Lua script attempted to execute a write command while the cluster is down and readonly":    {"ERR Lua script attempted", engine.ErrUnavailable},
		"ERR Script attempted to execute a write command while the cluster is down and readonly" + place7:      {"ERR Script attempted", engine.ErrUnavailable},
		refused6 + "Lua script attempted to access a non local key in a cluster node":                          {"ERR Lua script attempted", engine.ErrUnavailable},
		"ERR Script attempted to access a non local key in a cluster node" + place7:                            {"ERR Script attempted", engine.ErrUnavailable},
		"ERR max number of clients reached":                                                                    {"ERR max number", engine.ErrUnavailable},
		wrapped6 + "WRONGTYPE Operation against a key holding the wrong kind of value":                         {"WRONGTYPE ", engine.ErrDenied},
		"WRONGTYPE Operation against a key holding the wrong kind of value" + place7:                           {"WRONGTYPE ", engine.ErrDenied},
		refused6 + "The user executing the script can't run this command or subcommand":                        {"ERR The user executing", engine.ErrDenied},
		"ERR The user executing the script can't run this command or subcommand" + place7:                      {"ERR The user executing", engine.ErrDenied},
		"ERR ACL failure in script: User app has no permissions to run the 'hset' command" + place7:            {"ERR ACL failure", engine.ErrDenied},
		"NOPERM this user has no permissions to access one of the keys used as arguments":                      {"NOPERM ", engine.ErrDenied},
		wrapped6 + "user_script:47: Script attempted to access nonexistent global variable 'nosuch'":           {"user_script:47:", engine.ErrDenied},
		"ERR Error running script (call to f_288e): @err_handler_def:9: err_handler_def:9: attempt to concat":  {"ERR Error running", engine.ErrDenied},
		"ERR user_script:47: Script attempted to access nonexistent global variable 'nosuch'" + place7:         {"ERR user_script:47:", engine.ErrDenied},
		"ERR Error running script (call to f_288e): @user_script":                                              {"ERR Error running", engine.ErrDenied},
		"ERR Error running script (call to f_288e): @user_script:47":                                           {"ERR Error running", engine.ErrDenied},
		"ERR Error running script (call to f_288e): @user_script:47: @user_script: -READONLY":                  {"ERR Error running", engine.ErrDenied},
		"ERR Error running script (call to f_288e): @user_script:47: @user_script: 47: -READONLY: and a colon": {"READONLY: and a colon", engine.ErrUnavailable},
	} {
		raw := answer(text)
		err := goredis.Classify(t.Context(), fmt.Errorf("on the way: %w", raw))
		var got redis.Error
		if !errors.Is(err, want.is) || !errors.As(err, &got) || !strings.HasPrefix(got.Error(), want.code) {
			t.Errorf("%s\n\tgot %v with the answer %v, want %v with %q", text, err, got, want.is, want.code)
		}
		if !errors.Is(err, raw) {
			t.Errorf("%s: %v does not carry what Redis said", text, err)
		}
		if again := goredis.Classify(t.Context(), err); !errors.Is(again, want.is) {
			t.Errorf("%s: the second time it is %v", text, again)
		}
	}
}

// A script that a server refuses half way, as one of its commands is refused,
// gives the error of that command, whatever the version of the server.
func TestAnswersInScripts(t *testing.T) {
	for name, c := range map[string]struct {
		args  []string
		spoil func(ctx context.Context, s *redistest.Server, rdb *redis.Client) error
		code  string
	}{
		"a replica": {code: "READONLY", spoil: func(ctx context.Context, _ *redistest.Server, rdb *redis.Client) error {
			return rdb.Do(ctx, "replicaof", "127.0.0.1", 1).Err()
		}},
		"a replica without its master": {code: "MASTERDOWN", args: []string{"--replica-serve-stale-data", "no"},
			spoil: func(ctx context.Context, _ *redistest.Server, rdb *redis.Client) error {
				return rdb.Do(ctx, "replicaof", "127.0.0.1", 1).Err()
			}},
		"too few replicas": {code: "NOREPLICAS", spoil: func(ctx context.Context, _ *redistest.Server, rdb *redis.Client) error {
			return rdb.ConfigSet(ctx, "min-replicas-to-write", "1").Err()
		}},
		"a disk that is full": {code: "MISCONF", args: []string{"--dbfilename", "taken"},
			spoil: func(ctx context.Context, s *redistest.Server, rdb *redis.Client) error {
				if err := os.MkdirAll(filepath.Join(s.Dir(), "taken", "by a folder"), 0o700); err != nil {
					return err
				}
				return errors.Join(rdb.ConfigSet(ctx, "save", "3600 1000000").Err(), rdb.BgSave(ctx).Err(), failed(ctx, rdb))
			}},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t, redistest.WithArgs(c.args...))
			rdb := server.Client()
			e := open(t, rdb)
			var all []engine.Renewal
			for i := range 6 { // more than go by themselves
				r := request("c1.a")
				r.Resource.Name = fmt.Sprint("stock:", i)
				all = append(all, engine.Renewal{Resource: r.Resource, Held: hold(t, e, r), TTL: r.TTL})
			}
			must(t, c.spoil(t.Context(), server, rdb))
			_, err := e.Acquire(t.Context(), request("c2.b"))
			wantPassing(t, "Acquire", err, c.code)
			for _, err := range e.Renew(t.Context(), all) {
				wantPassing(t, "Renew", err, c.code)
			}
			wantPassing(t, "Release", e.Release(t.Context(), engine.Release{Resource: all[0].Resource, Held: all[0].Held}), c.code)
			wantPassing(t, "Break", e.Break(t.Context(), all[0].Resource, engine.Break{ID: "c1.a"}), c.code)
		})
	}
}

// failed waits until a save in the background has failed.
func failed(ctx context.Context, rdb *redis.Client) error {
	for {
		info, err := rdb.Info(ctx, "persistence").Result()
		if err != nil || strings.Contains(info, "rdb_last_bgsave_status:err") {
			return err
		}
	}
}

func wantPassing(t *testing.T, what string, err error, code string) {
	t.Helper()
	wantError(t, what, err, engine.ErrUnavailable)
	if !redis.HasErrorPrefix(err, code) {
		t.Errorf("%s: %v does not begin with %s", what, err, code)
	}
}

// A cluster that has lost masters refuses to write, also in a script that it has
// begun since reads are allowed.
func TestScriptsInAClusterThatIsDown(t *testing.T) {
	server := redistest.Start(t, redistest.WithArgs("--cluster-enabled", "yes", "--cluster-allow-reads-when-down", "yes"))
	admin := server.Client()
	slot, err := admin.ClusterKeySlot(t.Context(), tag("stock:42")).Result()
	must(t, err)
	must(t, admin.ClusterAddSlots(t.Context(), int(slot)).Err()) // the others are nobody's
	e := open(t, admin)                                          // a client of one server: nothing is sent elsewhere
	redistest.Await(t, 10*time.Second, "the cluster is down", func() bool {
		_, err := e.Acquire(t.Context(), request("c1.a"))
		wantError(t, "Acquire", err, engine.ErrUnavailable)
		return err != nil && strings.Contains(err.Error(), "cript attempted to execute")
	})
}
