package command

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/holdfast-go/holdfast/internal/describe"
)

// columns is a writer that aligns columns.
type columns struct {
	*tabwriter.Writer
	out *bufio.Writer // tabwriter writes each cell and its padding by itself
}

// table returns columns. The caller writes tab-separated rows and flushes.
func table(w io.Writer, header string) columns {
	out := bufio.NewWriter(w)
	t := columns{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0), out}
	fmt.Fprintln(t, header)
	return t
}

// Flush writes the rows.
func (t columns) Flush() error {
	if err := t.Writer.Flush(); err != nil {
		return err
	}
	return t.out.Flush()
}

// where describes the process of a party for a table.
func where(name, host string, pid int) string {
	return fmt.Sprintf("%s, pid %d on %s", orNone(name), pid, orNone(host))
}

// since formats an instant of the store's clock for a table, in local time.
func since(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format(time.DateTime)
}

// cell formats a text of another process for a cell. An empty text becomes "-".
func cell(text string) string {
	return cmp.Or(describe.Text(text), "-")
}
