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
		amountBefore := redistest.Scale(24, 400)
		db.createArticle(t, amountBefore)
		var sold, refused, stops int
		var mu sync.Mutex
		var all sync.WaitGroup
		for range sellers {
			all.Go(func() {
				s, r, n, err := runSeller(db)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				sold, refused, stops = sold+s, refused+r, stops+n
			})
		}
		all.Wait()
		if n := amount(t, db); sold != amountBefore || n != 0 {
			redistest.Broken(t, "%d sold of %d, and the amount is %d", sold, amountBefore, n)
		}
		if refused == 0 {
			t.Error("no claim was refused, so the fence was not tested")
		}
		t.Logf("%d sold, %d claims refused, %d stops", sold, refused, stops)
	})
}

// runSeller runs a process that sells until nothing is left. It stops the process at some of its
// points, each of which is a line of output that waits for one of input, and always at the first
// point between two transactions.
func runSeller(db store) (sold, refused, stops int, err error) {
	cmd, in, out, err := redistest.StartSelf(os.Stderr, sellerDriver+"="+db.driver, sellerDSN+"="+db.dsn)
	if err != nil {
		return 0, 0, 0, err
	}
	lines := bufio.NewScanner(out)
	stoppedBetween := false
	for lines.Scan() {
		stop := rand.IntN(6) == 0
		switch lines.Text() {
		case within:
		case between:
			stop = stop || !stoppedBetween
			stoppedBetween = true
		default:
			_, err = fmt.Sscan(lines.Text(), &sold, &refused)
			continue
		}
		if stop {
			stops++
			err = errors.Join(err, redistest.Pause(cmd.Process))
		}
		_, werr := io.WriteString(in, "go\n")
		err = errors.Join(err, werr)
		if stop {
			<-time.After(2 * sellerTTL) // how long it is stopped
			err = errors.Join(err, cmd.Process.Signal(syscall.SIGCONT))
		}
	}
	return sold, refused, stops, errors.Join(err, lines.Err(), cmd.Wait())
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
