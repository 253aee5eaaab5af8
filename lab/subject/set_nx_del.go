package subject

import (
	"context"
)

// SetNxDel is SET NX PX with the DEL in a finally block that also runs if the lock was
// not acquired.
//
// Hole: a failed attempt deletes the holder's lock.
func SetNxDel() Subject {
	return Subject{ID: "set-nx-del", Title: "SET NX PX; DEL, also when it was not got", Nodes: 1, Traits: Traits{Points: true},
		Open: func(s Setup) (Client, error) { return &polling{s, setNxDel{s}.try}, nil }}
}

type setNxDel struct{ Setup }

func (l setNxDel) try(ctx context.Context, resource string) (*hold, error) {
	got, err := l.node().SetNX(ctx, resource, l.Clock.Now().UnixMilli(), l.TTL).Result()
	if err != nil {
		return nil, err
	}
	if !got {
		if err := l.at(ctx, "acquire.refused"); err != nil {
			return nil, err
		}
		if err := l.del(ctx, resource); err != nil { // the finally block
			return nil, err
		}
		return nil, ErrBusy
	}
	return &hold{release: func(ctx context.Context) error { return l.del(ctx, resource) }}, nil
}
