// Something about something.
package wrong // want
