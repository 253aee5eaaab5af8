// Holdfast is a command.
package main
