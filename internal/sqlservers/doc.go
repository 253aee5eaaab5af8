// Package sqlservers starts real PostgreSQL, MariaDB and MySQL servers for tests.
//
// A Server is a process on a free loopback port with its data in a folder of its own; it
// can be paused, resumed, killed and restarted. A Shared is a server that all tests of a
// binary use. redistest.Proxy injects faults into the network in front of them.
//
// The package needs no driver: DSN returns what the usual drivers take. It runs on systems
// like Unix. It is for tests only: nothing that users import may import it.
package sqlservers
