package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
)

// firstStock is the number of units on sale. If the act without a lock oversold none, it is
// repeated with more.
const (
	firstStock = 200
	rounds     = 3
)

// Player runs the scenes.
type Player struct {
	locks  *store.Store
	data   *store.Store // of the stock: locks, or own
	own    *Embedded    // nil: locks is a Redis
	conf   config       // of every node
	prefix string
	screen *screen
	Acts   []Act
	Pushes []Push

	// Outage, if not nil, makes the store unreachable for a time and keeps its data.
	Outage func(ctx context.Context, d time.Duration) error
}

// Open connects to the store of the locks. If it is not a Redis, the stock is in an Embedded
// server. All keys of the scenes begin with a random prefix; Close deletes them.
func Open(url string, o store.Opener, screen io.Writer, terminal Drawing) (*Player, error) {
	locks, err := o.Open(url)
	if err != nil {
		return nil, err
	}
	p := &Player{locks: locks, data: locks, screen: newScreen(screen, terminal)}
	p.prefix = "holdfast-demo-" + strings.ToLower(rand.Text()[:10])
	p.conf = config{Store: url, TLS: o.TLS, Prefix: p.prefix}
	if locks.Client() != nil {
		return p, nil
	}
	if p.own, err = StartEmbedded(); err != nil {
		return nil, errors.Join(err, locks.Close())
	}
	p.conf.Data = p.own.URL()
	if p.data, err = (store.Opener{}).Open(p.conf.Data); err != nil {
		p.own.Stop()
		return nil, errors.Join(err, locks.Close())
	}
	return p, nil
}

// node completes the configuration of a node.
func (p *Player) node(c config) config {
	c.Store, c.TLS, c.Data, c.Prefix = p.conf.Store, p.conf.TLS, p.conf.Data, p.conf.Prefix
	return c
}

// StockApart reports whether the stock is not in the store of the locks.
func (p *Player) StockApart() bool { return p.own != nil }

// Prefix returns the prefix of all keys of the scenes.
func (p *Player) Prefix() string { return p.prefix }

// Play runs all acts. It returns an error if one of them did not run to its end. Use Claims
// to check the results.
func (p *Player) Play(ctx context.Context) error {
	units := firstStock
	for round := 1; ; round++ {
		act, err := p.play(ctx, "without a lock", false, false, units)
		if err != nil {
			return err
		}
		if act.Oversold() > 0 || round == rounds {
			p.Acts = append(p.Acts, act)
			break
		}
		p.screen.say("the nodes did not get in each other's way this time: once more, with more stock")
		units *= 4
	}
	act, err := p.play(ctx, "with Holdfast", true, false, firstStock)
	if err != nil {
		return err
	}
	p.Acts = append(p.Acts, act)
	act, err = p.play(ctx, "one holder killed, one paused", true, true, firstStock)
	if err != nil {
		return err
	}
	p.Acts = append(p.Acts, act)
	return p.playPushes(ctx)
}

// Claim is a statement about the results of the scenes, and whether it held.
type Claim struct {
	Text string `json:"claim"`
	Held bool   `json:"held"`
}

// Claims returns the claims and whether they held. Play must have returned nil.
func (p *Player) Claims() []Claim {
	plain, locked, faults := p.Acts[0], p.Acts[1], p.Acts[2]
	exact := func(a Act) bool { return a.Sold == a.Stock && a.Left == 0 }
	return append([]Claim{
		{fmt.Sprintf("without a lock the stock is oversold: %d units that do not exist", plain.Oversold()), plain.Oversold() > 0},
		{fmt.Sprintf("with Holdfast exactly the stock is sold: %d of %d", locked.Sold, locked.Stock), exact(locked)},
		{fmt.Sprintf("also with a holder killed and one paused: %d of %d", faults.Sold, faults.Stock), exact(faults)},
		{fmt.Sprintf("the killed holder's lease passed on, %s after the kill (TTL %s)", seconds(faults.Takeover), seconds(ttl)), faults.Takeover > 0},
		{fmt.Sprintf("the paused holder's late write was refused by its fencing token (paused %s)", seconds(faults.Paused)), faults.Refused > 0 && faults.Paused > ttl/2},
		{"the paused holder's own lease told it that it was lost", faults.Knew},
	}, pushClaims(p.Pushes)...)
}

// Close deletes the keys of the scenes in a Redis and disconnects. In another store they expire.
func (p *Player) Close(ctx context.Context) error {
	var errs []error
	for _, n := range p.locks.Nodes() {
		r, ok := n.(*store.RedisNode)
		if !ok {
			continue
		}
		if cluster, ok := r.Client.(*redis.ClusterClient); ok {
			errs = append(errs, cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return wipe(ctx, c, p.prefix) }))
		} else {
			errs = append(errs, wipe(ctx, r.Client, p.prefix))
		}
	}
	if p.own != nil {
		errs = append(errs, p.data.Close())
		p.own.Stop()
	}
	return errors.Join(append(errs, p.locks.Close())...)
}

// wipe deletes the keys below prefix, one by one, since in a cluster they are in several
// slots.
func wipe(ctx context.Context, c redis.Cmdable, prefix string) error {
	keys := c.Scan(ctx, 0, prefix+"*", 1000).Iterator()
	for keys.Next(ctx) {
		if err := c.Del(ctx, keys.Val()).Err(); err != nil {
			return err
		}
	}
	return keys.Err()
}
