// Package trytest runs processes on a real store: one that holds a lease until it is killed or paused, and others
// that live for one TryLock each, as a job from cron does. A package that uses it calls Main in its TestMain.
package trytest
