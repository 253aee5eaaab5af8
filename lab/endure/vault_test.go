package endure

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// paper is a lease that a test writes.
type paper struct {
	token uint64
	until time.Time
	err   error
}

func (p *paper) Token() uint64       { return p.token }
func (p *paper) Deadline() time.Time { return p.until }
func (p *paper) Err() error          { return p.err }

// The vault finds what would break a promise, and nothing else.
func TestVault(t *testing.T) {
	soon := func(d time.Duration) time.Time { return time.Now().Add(d) }
	lost := errors.New("lost")
	nothing := func() {}
	for _, c := range []struct {
		name  string
		play  func(t *testing.T, v *vault) error
		err   error
		finds []string
	}{
		{"one after the other", func(_ *testing.T, v *vault) error {
			return errors.Join(v.add("a", &paper{1, soon(time.Hour), nil}, nothing), v.add("a", &paper{2, soon(time.Hour), nil}, nothing))
		}, nil, nil},
		{"a holder that died, and one after its window", func(t *testing.T, v *vault) error {
			dead, died := t.Context().Done(), make(chan struct{})
			go func() { _ = v.add("a", &paper{1, soon(time.Microsecond), nil}, func() { close(died); <-dead }) }()
			<-died
			return v.add("a", &paper{2, soon(time.Hour), nil}, nothing)
		}, nil, nil},
		{"a stale holder that was notified", func(_ *testing.T, v *vault) error {
			first := &paper{1, soon(time.Microsecond), nil}
			return v.add("a", first, func() { _ = v.add("a", &paper{2, soon(time.Hour), nil}, nothing); first.err = lost })
		}, errStale, nil},
		{"a holder that is lost before it enters", func(_ *testing.T, v *vault) error {
			return v.add("a", &paper{1, soon(time.Hour), lost}, nothing)
		}, lost, nil},
		{"two open windows", func(_ *testing.T, v *vault) error {
			first := &paper{1, soon(time.Hour), nil}
			return v.add("a", first, func() { _ = v.add("a", &paper{2, soon(time.Hour), nil}, nothing); first.err = lost })
		}, errStale, []string{"two open trust windows of a: token 2"}},
		{"two open windows on different resources", func(_ *testing.T, v *vault) error {
			return v.add("a", &paper{1, soon(time.Hour), nil}, func() { _ = v.add("b", &paper{2, soon(time.Hour), nil}, nothing) })
		}, nil, nil},
		{"a token twice", func(_ *testing.T, v *vault) error {
			return errors.Join(v.add("a", &paper{7, soon(time.Hour), nil}, nothing), v.add("a", &paper{7, soon(time.Hour), nil}, nothing))
		}, nil, []string{"a token entered twice of a: token 7"}},
		{"an older token, not notified", func(_ *testing.T, v *vault) error {
			return errors.Join(v.add("a", &paper{9, soon(time.Hour), nil}, nothing), v.add("a", &paper{8, soon(time.Hour), nil}, nothing))
		}, nil, []string{"token 8 of me is stale, 9 has entered"}},
		{"a write by a holder that was not notified", func(_ *testing.T, v *vault) error {
			return v.add("a", &paper{1, soon(time.Microsecond), nil}, func() { _ = v.add("a", &paper{2, soon(time.Hour), nil}, nothing) })
		}, nil, []string{"token 1 of me cannot write"}},
		{"a lost update", func(t *testing.T, v *vault) error {
			err := v.add("a", &paper{1, soon(time.Hour), nil}, nothing)
			return errors.Join(err, v.rdb.HSet(t.Context(), vaultPrefix+"a", "value", 0).Err())
		}, nil, []string{"vault:a is 0 after 1 writes"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := openVault(redistest.Start(t).Addr(), "me")
			defer v.close()
			if err := c.play(t, v); !errors.Is(err, c.err) {
				t.Errorf("got %v, want %v", err, c.err)
			}
			bad, entries, err := v.audit(t.Context())
			if err != nil || c.err != lost && entries == 0 {
				t.Errorf("%d entries, %v", entries, err)
			}
			if !slices.EqualFunc(bad, c.finds, strings.Contains) {
				t.Errorf("found %q, want %q", bad, c.finds)
			}
		})
	}
}
