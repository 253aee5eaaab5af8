package sqltest

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Environment variables of a process that sells.
const (
	sellerDriver = "HOLDFAST_TEST_SELLER_DRIVER"
	sellerDSN    = "HOLDFAST_TEST_SELLER_DSN"
)

// sellerTTL is the TTL of the sellers' leases.
const sellerTTL = 500 * time.Millisecond

// Processes sell one at a time, as holders of a lock in the database of the stock, and are
// stopped at random past their TTL: between reading and writing, in the middle of a transaction.
// Every sale that was committed is in the stock.
func TestSellersStoppedAtRandom(t *testing.T) {
	onOne(t, func(t *testing.T, db store) {
		const sellers = 4
		amountBefore := redistest.Scale(120, 1000)
		db.createArticle(t, amountBefore)
		s := &shop{store: db}
		var all sync.WaitGroup
		for range sellers {
			all.Go(func() {
				if err := s.runSeller(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := amount(t, db); s.sold != amountBefore || n != 0 {
			redistest.Broken(t, "%d sold of %d, and the amount is %d", s.sold, amountBefore, n)
		}
		if s.refused == 0 {
			t.Error("no claim was refused, so the fence was not tested")
		}
		t.Logf("%d sold, %d claims refused, %d stops", s.sold, s.refused, s.stops)
	})
}

// shop is what several sellers have in common.
type shop struct {
	store
	points atomic.Int64 // that sellers came to
	paused sync.Mutex   // held while one of them is stopped
	stops  int          // guarded by paused

	mu            sync.Mutex
	sold, refused int
}

// mayStop reports whether a seller may be stopped now, after which paused is to be unlocked.
func (s *shop) mayStop() bool {
	if !s.paused.TryLock() {
		return false
	}
	if s.stops == redistest.Scale(8, 100) {
		s.paused.Unlock()
		return false
	}
	s.stops++
	return true
}

// runSeller runs a process that sells until nothing is left. It stops the process at some of its
// points, each of which is a line of output that waits for one of input: once at a point between
// two transactions, and at random.
func (s *shop) runSeller() error {
	cmd, in, out, err := redistest.StartSelf(os.Stderr, sellerDriver+"="+s.driver, sellerDSN+"="+s.dsn)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	stoppedBetween := false
	for lines.Scan() {
		where := lines.Text()
		if where != within && where != between {
			var sold, refused int
			_, err = fmt.Sscan(where, &sold, &refused)
			s.mu.Lock()
			s.sold, s.refused = s.sold+sold, s.refused+refused
			s.mu.Unlock()
			continue
		}
		came := s.points.Add(1)
		stop := (rand.IntN(10) == 0 || where == between && !stoppedBetween) && s.mayStop()
		if stop {
			err = errors.Join(err, redistest.Pause(cmd.Process))
		}
		_, werr := io.WriteString(in, "go\n")
		err = errors.Join(err, werr)
		if stop {
			stoppedBetween = stoppedBetween || where == between
			<-time.After(2 * sellerTTL) // within, the others wait for its transaction
			for begin := time.Now(); where == between && s.points.Load() == came && time.Since(begin) < 5*time.Second; {
				<-time.After(10 * time.Millisecond) // until another has claimed, if there is one
			}
			err = errors.Join(err, cmd.Process.Signal(syscall.SIGCONT))
			s.paused.Unlock()
		}
	}
	return errors.Join(err, lines.Err(), cmd.Wait())
}

// seller is the process. It never looks whether it still has its lease.
type seller struct {
	db    *sql.DB
	guard *fence.SQL
	in    *bufio.Reader
}

// Where a process may be stopped.
const (
	within  = "within"  // a transaction that has claimed and read
	between = "between" // that transaction and the one that writes
)

func (s *seller) point(where string) {
	fmt.Println(where)
	_, _ = s.in.ReadString('\n')
}

var errSoldOut = errors.New("sold out")

func sell(driver, dsn string) error {
	ctx := context.Background()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return err
	}
	e, stop, err := openEngine(ctx, driver, dsn, db)
	if err != nil {
		return err
	}
	defer stop()
	c, err := holdfast.New(e)
	if err != nil {
		return err
	}
	defer c.Close()
	s := &seller{db: db, guard: fence.NewSQL(fence.PostgreSQL), in: bufio.NewReader(os.Stdin)}
	if driver == "mysql" {
		s.guard = fence.NewSQL(fence.MySQL)
	}
	for sold, refused := 0, 0; ; {
		lease, err := c.Mutex(stock, holdfast.WithTTL(sellerTTL)).Lock(ctx)
		if err != nil {
			return err
		}
		sale := s.inOne
		if rand.IntN(2) == 0 {
			sale = s.inTwo
		}
		switch err := sale(ctx, lease.Token()); {
		case err == nil:
			sold++
		case errors.Is(err, fence.ErrStale):
			refused++
		case errors.Is(err, errSoldOut):
			fmt.Println(sold, refused)
			return nil
		default:
			return err
		}
		_ = lease.Release(ctx) // it may be lost
	}
}

// inOne reads and writes in one transaction.
func (s *seller) inOne(ctx context.Context, token uint64) error {
	return s.guard.Do(ctx, s.db, stock, token, func(tx *sql.Tx) error {
		n, err := read(ctx, tx)
		if err != nil {
			return err
		}
		s.point(within)
		return write(ctx, tx, n-1)
	})
}

// inTwo reads in one transaction and writes in another one, both of which claim.
func (s *seller) inTwo(ctx context.Context, token uint64) error {
	var n int
	err := s.guard.Do(ctx, s.db, stock, token, func(tx *sql.Tx) (err error) {
		n, err = read(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	s.point(between)
	return s.guard.Do(ctx, s.db, stock, token, func(tx *sql.Tx) error { return write(ctx, tx, n-1) })
}

func read(ctx context.Context, tx *sql.Tx) (n int, err error) {
	err = tx.QueryRowContext(ctx, "SELECT amount FROM article WHERE id = 42").Scan(&n)
	if err == nil && n == 0 {
		err = errSoldOut
	}
	return n, err
}

func write(ctx context.Context, tx *sql.Tx, n int) error {
	_, err := tx.ExecContext(ctx, "UPDATE article SET amount = "+strconv.Itoa(n)+" WHERE id = 42")
	return err
}
