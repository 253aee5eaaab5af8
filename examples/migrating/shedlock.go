package migrating

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast"
)

// AfterShedLock is a task of a scheduler under @SchedulerLock(lockAtLeastFor, lockAtMostFor).
func AfterShedLock(ctx context.Context, client *holdfast.Client, work func(ctx context.Context) error) error {
	job := client.Job("daily-report", holdfast.Cron("0 8 * * *"), holdfast.AtLeast(5*time.Minute), holdfast.WithTTL(time.Minute))
	return job.Serve(ctx, work)
}
