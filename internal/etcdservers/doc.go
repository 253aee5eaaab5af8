// Package etcdservers starts real etcd servers for tests, one or several members, on free loopback ports, as
// processes that end with the test, and kills, pauses and restarts them. The server is compiled
// from its Go module by the program etcdmember when it is first needed.
package etcdservers
