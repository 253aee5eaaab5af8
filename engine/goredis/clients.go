package goredis

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
)

// clientLife is the TTL of the description of a client in Redis. A client that is still
// active stores it again after clientRenewal.
const (
	clientLife    = time.Hour
	clientRenewal = 20 * time.Minute
)

// maxKnown bounds the descriptions of other clients kept in memory.
const maxKnown = 4096

// description is what Redis has of a client, for operators.
type description struct {
	Name string `json:"name,omitempty"`
	Host string `json:"host,omitempty"`
	PID  int    `json:"pid,omitempty"`
}

// localClient is a client of this engine.
type localClient struct {
	client  engine.Client
	written map[string]time.Time // by prefix: when its description was stored
	storing map[string]bool      // by prefix: a call that stores it is in flight
}

// clients has the clients of this engine, and descriptions of the clients of other holders.
type clients struct {
	mu    sync.Mutex
	local map[string]*localClient
	known map[string]engine.Client // by key; a description never changes
}

// join registers a client.
func (c *clients) join(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.localClient(id)
}

func (c *clients) localClient(id string) *localClient {
	s := c.local[id]
	if s == nil {
		if c.local == nil {
			c.local = make(map[string]*localClient)
		}
		s = &localClient{written: make(map[string]time.Time), storing: make(map[string]bool)}
		c.local[id] = s
	}
	return s
}

// leave removes a client.
func (c *clients) leave(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.local, id)
}

// unused reports whether there is no client. Then it takes the own connections out of use in the
// same step and returns them, or nil: a client that joins later gets new ones.
func (c *clients) unused(o *ownPool) (rdb redis.UniversalClient, none bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.local) > 0 {
		return nil, false
	}
	return o.take(), true
}

// due registers a client and reports whether the caller must store its description, and call tried then.
// Such a call is not batched, so of many that begin at once only one is told to.
func (c *clients) due(prefix string, client *engine.Client) bool {
	if client == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.localClient(client.ID)
	s.client = *client
	if s.storing[prefix] || !s.due(prefix) {
		return false
	}
	s.storing[prefix] = true
	return true
}

// tried records that a call that had to store the description has ended. If it failed, the next one is told to.
func (c *clients) tried(prefix, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.local[id]; s != nil {
		delete(s.storing, prefix)
	}
}

func (s *localClient) due(prefix string) bool {
	written, ok := s.written[prefix]
	return s.client.ID != "" && (!ok || time.Since(written) > clientRenewal)
}

// dueAgain returns the client if it belongs to this engine and its description is old. A
// client that only renews must not lose its description.
func (c *clients) dueAgain(prefix, id string) (engine.Client, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.local[id]
	if s == nil || !s.due(prefix) {
		return engine.Client{}, false
	}
	return s.client, true
}

// wrote records that the description was stored.
func (c *clients) wrote(prefix, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.local[id]; s != nil {
		s.written[prefix] = time.Now()
	}
}

// describe returns the command that stores the description of a client.
func describe(ctx context.Context, prefix string, c engine.Client) command {
	text, _ := json.Marshal(description{c.Name, c.Host, c.PID}) // cannot fail: strings and an int
	return newCommand(ctx, []any{"set", clientKey(prefix, c.ID), text, "px", clientLife.Milliseconds()})
}

// resolve returns the clients of holder IDs, by client ID. It reads descriptions that it does
// not have from Redis. A client without one has its ID only.
func (e *Engine) resolve(ctx context.Context, prefix string, holderIDs []string) (map[string]engine.Client, error) {
	found := make(map[string]engine.Client, len(holderIDs))
	var missing []string
	e.clients.mu.Lock()
	for _, holder := range holderIDs {
		id := engine.ClientOf(holder)
		if _, ok := found[id]; ok {
			continue
		}
		if c, ok := e.clients.known[clientKey(prefix, id)]; ok {
			found[id] = c
		} else {
			found[id] = engine.Client{ID: id}
			missing = append(missing, id)
		}
	}
	e.clients.mu.Unlock()
	for part := range slices.Chunk(missing, longPart) {
		if err := e.read(ctx, prefix, part, found); err != nil {
			return found, err
		}
	}
	return found, nil
}

// read adds the descriptions that Redis has to found.
func (e *Engine) read(ctx context.Context, prefix string, missing []string, found map[string]engine.Client) error {
	texts, err := bounded(e, ctx, func() ([]*redis.StringCmd, error) {
		w := e.batchers.poolOf(ctx, clientKey(prefix, missing[0]))
		return through(ctx, e, w, func(ctx context.Context, rdb redis.UniversalClient) ([]*redis.StringCmd, error) {
			pipe := rdb.Pipeline()
			cmds := make([]*redis.StringCmd, len(missing))
			for i, id := range missing {
				cmds[i] = pipe.Get(ctx, clientKey(prefix, id))
			}
			_, err := pipe.Exec(ctx)
			return cmds, err
		})
	})
	if texts == nil {
		return e.classify(ctx, err)
	}
	for i, id := range missing {
		text, err := texts[i].Bytes()
		if err != nil {
			continue // expired, or not allowed: there is the ID only
		}
		if c, ok := parseClient(id, text); ok {
			found[id] = c
			e.clients.learn(clientKey(prefix, id), c)
		}
	}
	return nil
}

func parseClient(id string, text []byte) (engine.Client, bool) {
	var d description
	if json.Unmarshal(text, &d) != nil {
		return engine.Client{}, false
	}
	return engine.Client{ID: id, Name: d.Name, Host: d.Host, PID: d.PID}, true
}

func (c *clients) learn(key string, client engine.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxKnown {
		c.known = make(map[string]engine.Client)
	}
	c.known[key] = client
}
