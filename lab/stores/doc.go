// Package stores is the table of all stores that Holdfast runs on: how a server of each is
// started and harmed, how a process opens an engine on it, and which faults it can have.
package stores
