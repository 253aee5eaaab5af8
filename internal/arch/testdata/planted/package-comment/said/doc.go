// Package said speaks once, for all its files.
package said
