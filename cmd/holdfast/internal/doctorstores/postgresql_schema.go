package doctorstores

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
)

// pgTable is the table of engine/postgres, with the version in its name.
const pgTable = "holdfast1_doc"

// rightStatement is a statement that an engine uses, and the right that it needs.
type rightStatement struct{ right, sql string }

// pgStatements are the engine's, as far as rights and the table go. None changes a row.
var pgStatements = []rightStatement{
	{"SELECT", "SELECT space, prefix, name, rev, value, keep_until FROM " + pgTable + " WHERE false"},
	{"INSERT", "INSERT INTO " + pgTable + ` (space, prefix, name, rev, value, keep_until)
		SELECT 'r'::"char", ''::bytea, ''::bytea, 1, ''::bytea, clock_timestamp() WHERE false ON CONFLICT (space, prefix, name) DO NOTHING`},
	{"UPDATE", "UPDATE " + pgTable + " SET rev = 1, value = ''::bytea, keep_until = clock_timestamp() WHERE false"},
	{"DELETE", "DELETE FROM " + pgTable + " WHERE false"},
}

// schema checks that the table is there and is the one of this version. It reports whether it may be used.
func (p *postgreSQL) schema(ctx context.Context) bool {
	c := p.check("schema")
	var found bool
	var persistence string
	var others []string
	err := p.row(ctx, `SELECT to_regclass('`+pgTable+`') IS NOT NULL,
		coalesce((SELECT relpersistence::text FROM pg_class WHERE oid = to_regclass('`+pgTable+`')), ''),
		coalesce((SELECT array_agg(relname::text ORDER BY relname) FROM pg_class WHERE relkind IN ('r', 'p') AND relname ~ '^holdfast[0-9]+_doc$' AND relname <> '`+pgTable+`'), '{}')`,
		&found, &persistence, &others)
	if c.Unanswered(err) {
		return false
	}
	if !found {
		what := "the table " + pgTable + " is missing, or is in a schema that search_path does not name"
		if len(others) > 0 {
			what += "; there is " + strings.Join(others, ", ") + ", of another version of Holdfast"
		}
		c.Fail("run holdfast migrate, or apply the SQL that it prints", "%s", what)
		return false
	}
	for _, s := range pgStatements {
		if err := p.exec(ctx, s.sql); err != nil && pgCode(err)[:min(2, len(pgCode(err)))] == "42" && pgCode(err) != "42501" {
			c.Fail("rename it, and run holdfast migrate", "the table %s is not the one of Holdfast: %s", pgTable, diagnosis.OneLine(err))
			return false
		}
	}
	if persistence != "p" {
		c.Warn("ALTER TABLE "+pgTable+" SET LOGGED", "the table %s is unlogged: a crash empties it, and standbys do not have it, so that after either two may hold a resource", pgTable)
		return true
	}
	c.OK("%s is there", pgTable)
	return true
}

// rights runs each of the engine's statements without an effect. It reports whether all are allowed.
func (p *postgreSQL) rights(ctx context.Context) bool {
	c := p.check("rights")
	var lacks []string
	for _, s := range pgStatements {
		err := p.exec(ctx, s.sql)
		switch code := pgCode(err); {
		case code == "42501":
			lacks = append(lacks, s.right)
		case code == "25006": // a finding about the mode
		case err != nil:
			c.Unanswered(err)
			return false
		}
	}
	var user, schema string
	if err := p.row(ctx, "SELECT current_user, coalesce((SELECT relnamespace::regnamespace::text FROM pg_class WHERE oid = to_regclass('"+pgTable+"')), current_schema())", &user, &schema); c.Unanswered(err) {
		return false
	}
	if len(lacks) == 0 {
		c.OK("user %s has all rights that the engine needs", user)
		return true
	}
	remedy := fmt.Sprintf("GRANT %s ON %s TO %s", strings.Join(lacks, ", "), pgx.Identifier{schema, pgTable}.Sanitize(), pgx.Identifier{user}.Sanitize())
	c.With("lacks", lacks).FailAs(diagnosis.Denied, remedy, "user %s may not %s", user, strings.Join(lacks, ", "))
	return false
}
