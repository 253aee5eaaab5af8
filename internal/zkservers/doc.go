// Package zkservers starts real ZooKeeper servers for tests, one or an ensemble, on free loopback ports, as Java processes that end
// with the test, and kills, pauses and restarts them.
package zkservers
