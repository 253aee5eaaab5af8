package mysql_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/mysql"
)

// A trigger on the table, as an audit or a change of its schema while it is in use adds one, does not change the time that
// the engine reads with a change.
func TestTriggerOnTheTable(t *testing.T) {
	t.Parallel()
	for _, column := range []string{"n BIGINT NOT NULL PRIMARY KEY AUTO_INCREMENT, ", ""} {
		dsn := newDatabase(t)
		admin := open(t, dsn)
		for _, statement := range []string{
			"CREATE TABLE copies (" + column + "k VARBINARY(1027) NOT NULL, value MEDIUMBLOB)",
			"CREATE TRIGGER copy_insert AFTER INSERT ON holdfast1_document FOR EACH ROW INSERT INTO copies (k, value) VALUES (NEW.k, NEW.value)",
			"CREATE TRIGGER copy_update AFTER UPDATE ON holdfast1_document FOR EACH ROW INSERT INTO copies (k, value) VALUES (NEW.k, NEW.value)",
			"FLUSH TABLES", // as after a start, the server reads the triggers with the first statement
		} {
			if _, err := admin.Exec(statement); err != nil {
				t.Fatal(err)
			}
		}
		s := mysql.NewStore(open(t, dsn))
		rev := uint64(0)
		for n := range 3 {
			outs, err := s.Swap(t.Context(), []cas.Change{{Key: cas.Key{Space: cas.Resources, Prefix: "app", Name: "x"}, Rev: rev, Value: fmt.Append(nil, n), Keep: time.Minute}})
			if err != nil || !outs[0].Swapped {
				t.Fatalf("change %d: %v, %v", n, outs, err)
			}
			rev = outs[0].Doc.Rev
			if off := time.Since(outs[0].Doc.At).Abs(); off > time.Minute {
				t.Errorf("with a column %q, change %d: the time with it is %v", column, n, outs[0].Doc.At)
			}
		}
	}
}
