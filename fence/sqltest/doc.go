// Package sqltest has only tests: those of the SQL guards of package fence, on
// SQLite, and on PostgreSQL and MariaDB servers that the tests start themselves.
// It is a module of its own so that users of Holdfast do not get the drivers.
package sqltest
