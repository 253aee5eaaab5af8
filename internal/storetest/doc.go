// Package storetest shows promises under faults on the stores of engine/cas: with worker processes that
// are killed and stopped or only try, with witnesses, and with the data that a server leaves behind. It is for tests only.
package storetest
