package live

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lab/stores"
)

// CanRateClocks reports whether stores can have clocks of another rate than the machine's.
func CanRateClocks() bool { return redistest.CanRateClocks() }

// clockRates gives a quarter of the programs on Redis servers of the lab with clocks of other rates than the workers', within
// what docs/GUARANTEES.md allows. It draws from numbers of its own.
func clockRates(p *Program, s Setting) {
	d := drawer{rand.New(rand.NewPCG(p.Seed, 0x72617465))}
	if !onRedis(p.Subject) || s.Stores != OwnStores || !CanRateClocks() || d.IntN(4) > 0 && s.Focus != ClockRates {
		return
	}
	for range p.Nodes {
		p.Rates = append(p.Rates, drawn(d, -18, -10, 10, 18))
	}
}

// rated starts servers with the clocks of a program. The caller stops them.
func rated(ctx context.Context, p Program) (all []*store, err error) {
	for _, rate := range p.Rates {
		s, err := stores.LaunchRedis(float64(rate) / 1000)
		if err != nil {
			return all, err
		}
		all = append(all, &store{url: s.URL(), server: s, once: true})
	}
	for _, s := range all {
		if err := s.reset(ctx); err != nil {
			return all, err
		}
	}
	return all, nil
}

// clockSlack is what a server's clock may differ from what it has to show, besides its Error and the time that it takes to read it.
const clockSlack = 5 * time.Millisecond

// compareClocks returns an error if a store has not the clock that the program says: then its run shows nothing.
func (r *run) compareClocks(ctx context.Context) error {
	for i, s := range r.stores {
		if s.clock().Gain() == 0 {
			if len(r.p.Rates) > 0 && r.p.Rates[i] != 0 {
				return fmt.Errorf("node%d has no clock of its own", i+1)
			}
			continue
		}
		before := time.Now().Round(0)
		var shows time.Time
		if err := s.client(func(c *redis.Client) (err error) { shows, err = c.Time(ctx).Result(); return err }); err != nil {
			return err
		}
		slack := clockSlack + s.clock().Error()
		least, most := s.clock().At(before).Add(-slack), s.clock().At(time.Now().Round(0)).Add(slack)
		if shows.Before(least) || shows.After(most) {
			return fmt.Errorf("node%d shows %v; its clock has to be between %v and %v", i+1, shows, least, most)
		}
	}
	return nil
}
