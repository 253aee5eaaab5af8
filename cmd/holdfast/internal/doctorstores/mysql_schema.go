package doctorstores

import (
	"context"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
)

// mysqlTables are those of engine/mysql, with the version in their names, and its statements, as far as rights and
// the tables go. None changes a row.
var mysqlTables = []struct {
	name       string
	statements []rightStatement
	keys       []string // the columns of an index, in order
}{
	{"holdfast1_document", []rightStatement{
		{"SELECT", "SELECT k, rev, until, value FROM holdfast1_document WHERE k = X''"},
		{"INSERT", "INSERT INTO holdfast1_document (k, rev, until, value) SELECT X'', 1, 1, X'' FROM (SELECT 1) AS one WHERE FALSE"},
		{"UPDATE", "UPDATE holdfast1_document SET rev = 1, until = 1, value = X'' WHERE k = X''"},
		{"DELETE", "DELETE FROM holdfast1_document WHERE k = X''"},
	}, []string{"PRIMARY(k)"}},
	{"holdfast1_wake", []rightStatement{
		{"SELECT", "SELECT seq, at, address, body FROM holdfast1_wake WHERE seq = 0"},
		{"INSERT", "INSERT INTO holdfast1_wake (at, address, body) SELECT 1, X'', X'' FROM (SELECT 1) AS one WHERE FALSE"},
		{"DELETE", "DELETE FROM holdfast1_wake WHERE seq = 0"},
	}, []string{"PRIMARY(seq)", "address(address,seq)"}},
}

// schema checks that the tables are there and are those of this version. It reports whether they may be used.
func (m *mySQL) schema(ctx context.Context) bool {
	c := m.check("schema")
	for _, table := range mysqlTables {
		for _, s := range table.statements {
			switch _, err := m.db.ExecContext(ctx, s.sql); mysqlCode(err) {
			case 1146:
				c.Fail("run holdfast migrate, or apply the SQL that it prints", "the table %s is missing", table.name)
				return false
			case 1054, 1364, 1366:
				c.Fail("rename it, and run holdfast migrate", "the table %s is not the one of Holdfast: %s", table.name, diagnosis.OneLine(err))
				return false
			}
		}
		if !m.tableFits(ctx, table.name, table.keys) {
			return false
		}
	}
	c.OK("holdfast1_document and holdfast1_wake are there")
	return true
}

// tableFits checks the storage engine and the indexes of a table, if the user may see them.
func (m *mySQL) tableFits(ctx context.Context, name string, keys []string) bool {
	c := m.check("schema")
	var engine string
	err := m.db.QueryRowContext(ctx, "SELECT engine FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?", name).Scan(&engine)
	if err == nil && !strings.EqualFold(engine, "InnoDB") {
		c.Fail("ALTER TABLE "+name+" ENGINE = InnoDB", "the table %s is kept by %s: a crash forgets its changes or destroys it", name, engine)
		return false
	}
	var found string
	err = m.db.QueryRowContext(ctx, `SELECT COALESCE(GROUP_CONCAT(part SEPARATOR ' '), '') FROM (SELECT CONCAT(index_name, '(', GROUP_CONCAT(column_name ORDER BY seq_in_index), ')') AS part
		FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = ? GROUP BY index_name) AS indexes`, name).Scan(&found)
	if c.Unanswered(err) {
		return true
	}
	for _, key := range keys {
		if _, columns, _ := strings.Cut(key, "("); !strings.Contains(found, "("+columns) {
			c.Fail("rename it, and run holdfast migrate", "the table %s has no index on (%s", name, columns)
			return false
		}
	}
	return true
}

// rights runs each of the engine's statements without an effect. It reports whether all are allowed.
func (m *mySQL) rights(ctx context.Context) bool {
	c := m.check("rights")
	var lacks, grants []string
	for _, table := range mysqlTables {
		var rights []string
		for _, s := range table.statements {
			_, err := m.db.ExecContext(ctx, s.sql)
			switch {
			case mysqlLacksRight(err):
				lacks, rights = append(lacks, s.right+" on "+table.name), append(rights, s.right)
			case mysqlCode(err) == 1290 || mysqlCode(err) == 1792 || mysqlCode(err) == 1836: // a finding about the mode
			case err != nil:
				c.Unanswered(err)
				return false
			}
		}
		if len(rights) > 0 {
			grants = append(grants, "GRANT "+strings.Join(rights, ", ")+" ON "+table.name)
		}
	}
	var user, account string
	err := m.db.QueryRowContext(ctx, "SELECT CURRENT_USER(), CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''')").Scan(&user, &account)
	switch {
	case err != nil:
		c.Unanswered(err)
		return false
	case len(lacks) == 0:
		c.OK("user %s has all rights that the engine needs", user)
		return true
	}
	for i := range grants {
		grants[i] = fmt.Sprintf("%s TO %s", grants[i], account)
	}
	c.With("lacks", lacks).FailAs(diagnosis.Denied, strings.Join(grants, "; "), "user %s may not %s", user, strings.Join(lacks, ", "))
	return false
}
