// Package transcript runs transcripts of the command in tests: files of testscript, on a Redis or on any other store.
// A package that uses it calls Main in its TestMain.
package transcript
