// Package sqltable has what the engines on SQL tables have in common: keys as the value of
// one column, and listeners for messages that are rows of a table.
package sqltable
