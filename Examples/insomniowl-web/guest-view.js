// The forms without an account: log-in, sign-up, and a forgotten password.

import { $, onSubmit, toast } from "./page.js";

/** Binds the forms. `done()` shows the view that follows a log-in, `showCodes(codes)` the recovery codes. */
export function bindGuests(calls, { done, showCodes }) {
  onSubmit($("#login"), async ({ name, password }) => {
    await calls.logIn(name, password);
    done();
  });

  onSubmit($("#signup"), async ({ name, password }) => {
    const codes = await calls.signUp(name, password);
    if (codes.length > 0) return showCodes(codes);
    toast("You already had this account, so you are logged in. You can create new recovery codes under Account.");
    return done();
    // The form has checked the password, so these refusals are about the name.
  }, (error) => ([400, 409].includes(error.status) ? "name" : null));

  onSubmit($("#forgot"), async ({ name, code, password }) => {
    await calls.resetPassword(name, code.trim(), password);
    toast("The password is set, and all other devices are logged out. Your recovery codes have ended: "
      + "create new ones under Account.");
    done();
  });
}
