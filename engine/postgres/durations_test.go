package postgres

import (
	"slices"
	"time"
)

type durations struct{ all []time.Duration }

func (d *durations) add(one time.Duration) { d.all = append(d.all, one) }

func (d *durations) median() time.Duration {
	slices.Sort(d.all)
	return d.all[len(d.all)/2]
}
