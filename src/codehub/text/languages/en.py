"""Every text in English."""

from collections.abc import Mapping

TEXTS: Mapping[str, str] = {
    # Everywhere
    "skip": "Skip to the content",
    "nav": "Main",
    "nav.workspaces": "Workspaces",
    "nav.trash": "Trash",
    "nav.all": "All workspaces",
    "nav.users": "People",
    "nav.health": "Health",
    "nav.account": "Account",
    "signout": "Sign out",
    "signed_in_as": "Signed in as {name}",
    "usage": "{used} of {max} running",
    "usage.why": "How many of your workspaces may run at once",
    "lost": "Connection lost. This page may be out of date; it catches up once connected.",
    "unreached": "codehub can't be reached, so this was probably not done. Try again once you are connected.",
    "close": "Close",
    "cancel": "Cancel",
    "save": "Save",
    "home": "Back to your workspaces",
    "sure.title": "Are you sure?",
    # States
    "phase.PENDING": "Not started",
    "phase.ARCHIVED": "Archived",
    "phase.STANDBY": "Asleep",
    "phase.RUNNING": "Running",
    "phase.ERROR": "Problem",
    "phase.DELETED": "Deleted",
    "phase.DELETING": "Deleting",
    "step.PENDING": "Not started",
    "step.ARCHIVED": "Archived",
    "step.STANDBY": "Asleep",
    "step.RUNNING": "Running",
    "wish.PENDING": "At rest, with nothing active",
    "wish.ARCHIVED": "Archived",
    "wish.STANDBY": "Asleep",
    "wish.RUNNING": "Running",
    "means.PENDING": "Nothing has been made for it yet.",
    "means.ARCHIVED": "Its files are in the archive.",
    "means.STANDBY": "Its files are ready; nothing is running.",
    "means.RUNNING": "Its IDE answers.",
    "means.ERROR": "It needs a decision.",
    "means.DELETED": "Its deletion can be undone from the trash.",
    "means.DELETING": "This can still be undone.",
    "sleeps_in": "sleeps in",
    "pinned": "Pinned",
    "never_sleeps": "never sleeps",
    "archives_in": "archived in",
    "last_used": "Last used",
    "not_used": "Not used yet",
    # The list
    "list.title": "Workspaces",
    "list.all": "All workspaces",
    "list.new": "New workspace",
    "list.search": "Search",
    "list.filter": "State",
    "list.any": "Any state",
    "list.more": "Show more",
    "list.loading": "Loading more…",
    "list.empty": "Create your first workspace",
    "list.empty.why": (
        "A workspace is a real IDE in your browser, with files that stay. It sleeps when you leave and "
        "wakes when you come back."
    ),
    "list.none": "No matches",
    "list.none.why": "Try other words or another state.",
    "list.none.clear": "Show all",
    "list.nobody": "Nobody has a workspace yet",
    "list.nobody.why": "As soon as somebody makes one, it appears here.",
    "col.name": "Name",
    "col.state": "State",
    "col.used": "Last used",
    "col.owner": "Owner",
    "col.deleted": "Deleted",
    "col.gone": "Gone for good",
    "col.added": "Added",
    "col.acts": "What can be done",
    # Buttons
    "do.open": "Open",
    "do.restore": "Restore and start",
    "do.start": "Start",
    "do.stop": "Put to sleep",
    "do.try": "Try now",
    "do.archive": "Archive",
    "do.look": "What happened?",
    "do.details": "Details",
    "do.settings": "Settings",
    "do.pin": "Pin to the top",
    "do.unpin": "Unpin",
    "do.keep_awake": "Keep awake {t}",
    "do.delete": "Delete",
    "do.undo": "Undo",
    "do.more": "More for {name}",
    "do.recover": "Recover",
    "do.adopt": "Go on with the files that are there",
    "do.newest": "Take the newest archive",
    "do.accept": "Continue without the lost files",
    "do.undelete": "Undo deletion",
    "do.purge": "Delete for good",
    "do.forget": "Forget",
    "do.refresh": "Refresh",
    "do.copy": "Copy",
    "do.copied": "Copied",
    # What was done
    "done.start": "Asked “{name}” to start.",
    "done.stop": "“{name}” goes to sleep. Its files stay.",
    "done.archive": "Asked to archive “{name}”.",
    "done.recover": "Looking at “{name}” again.",
    "done.pin": "“{name}” stays at the top of the list.",
    "done.unpin": "“{name}” is no longer pinned.",
    "done.keep_awake": "“{name}” stays awake longer, even if nobody uses it.",
    "done.delete": "“{name}” goes to the trash.",
    "done.undelete": "The deletion of “{name}” is undone.",
    "done.purge": "“{name}” is deleted for good.",
    "done.forget": "“{name}” is forgotten. “codehub gc” lists what is left of it.",
    "done.saved": "Saved.",
    "done.password": "Your password is changed. You are signed out everywhere else.",
    # Refusals
    "no.INVALID_STATE": "“{name}” is being deleted. Undo that first, or wait until it is gone.",
    "no.OPERATION_IN_PROGRESS": "Something is under way for “{name}”. Ask again when it is done.",
    "no.RECOVERY_REQUIRED": "“{name}” has a problem. Recover it first.",
    "no.WORKSPACE_NOT_FOUND": "This workspace is gone.",
    "no.INVALID_REQUEST": "That is more than is allowed here.",
    "no.PRECONDITION_FAILED": "Somebody changed it meanwhile. Look at it again, then decide.",
    "no.NAME_TAKEN": "You have a workspace of this name. Choose another.",
    "above.resources.memory_mb": "One workspace can have at most {max} MB of memory here.",
    "above.resources.cpus": "One workspace can have at most {max} CPUs here.",
    "above.resources.pids": "One workspace can have at most {max} processes here.",
    "above.resources.disk_mb": "One workspace can have at most {max} MB of disk here.",
    "above.image_ref": "This image is not allowed here. Allowed: {allowed}",
    "above.name": "You can have {max} workspaces here. Delete one first.",
    "above.tokens": "You can have {max} tokens here. Delete one first.",
    "no.LIMIT_EXCEEDED": (
        "You can run {max} at a time. Running now: {names}. Put one to sleep first; its files stay."
    ),
    "no.LIMIT_MAX": "You can run {max} at a time.",
    "no.LIMIT_PROBLEM": "“{name}” takes a place and has a problem: recover or delete it.",
    "no.LIMIT_TOTAL": (
        "{max} can run here at a time, counting everybody's, and no place is free. Once one of them is "
        "asleep, try again."
    ),
    # Pages that say no
    "error.title": "This did not work",
    "error.400.sessions": (
        "Your browser sent several sessions, and another site of this domain may have set one of them. "
        "Delete the cookies of this site and of its domain, then sign in again."
    ),
    "error.403": "This belongs to somebody else. Only its owner and admins can see it.",
    "error.403.admin": "Only an admin may see this. Ask one if you need it.",
    "error.403.foreign": "This request came from another site. Open codehub at {base}.",
    "error.404": "There is nothing at this address. It may be mistyped, or what was here is gone.",
    "error.404.workspace": (
        "There is no such workspace, or it was deleted. What was deleted lately is in the trash."
    ),
    "error.500": (
        "Something went wrong here, and codehub's log has it under {request_id}. Tell whoever looks after "
        "codehub."
    ),
    "error.429": "You have sent more than {max} requests in a minute. Wait a moment, then try again.",
    "error.503": "codehub's database does not answer right now. Nothing is lost; try again in a moment.",
    "error.503.crowded": "Too many people are signing in right now. Wait a moment, go back and try again.",
    "error.again": "Try again",
    "error.home": "To your workspaces",
    # Signing in
    "login.title": "Sign in",
    "login.lead": "Your workspaces are where you left them.",
    "login.username": "Username",
    "login.password": "Password",
    "login.wrong": "The name or the password is wrong.",
    "login.ended": "Your session has ended. Sign in again.",
    "login.ended.form": "Your session has ended. Nothing was saved; sign in again.",
    "login.forgotten": "Forgotten it? An admin can set a new password for you.",
    "login.throttled": "Too many failed tries. Wait {seconds} s, then try again.",
    # Creating and changing
    "new.title": "New workspace",
    "new.lead": "It starts right away. You can change all of this later.",
    "new.create": "Create and start",
    "edit.title": "Settings for {name}",
    "edit.lead": "Name, description and times apply at once; the rest from the next start.",
    "edit.stale": (
        "Somebody changed it meanwhile, so nothing was saved yet. Where they differ, the value stored now "
        "stands below yours; save again to keep yours."
    ),
    "edit.stored": "Stored now: {value}",
    "edit.nothing": "nothing",
    "field.name": "Name",
    "field.name.hint": "No two of your workspaces can have the same name.",
    "field.description": "Description",
    "field.memo": "Notes",
    "field.memo.hint": "Shown on the page of the workspace only.",
    "field.optional": "optional",
    "field.ide": "IDE",
    "ide.code-server": "VS Code in the browser",
    "ide.jupyterlab": "Notebooks, editor and terminal",
    "ide.http": "Any web server on port 8080",
    "field.image_ref": "Image",
    "field.image_ref.hint": "The container image it runs from.",
    "field.resources": "Resources",
    "field.memory_mb": "Memory (MB)",
    "field.cpus": "CPUs",
    "field.pids": "Process limit",
    "field.disk_mb": "Disk (MB)",
    "field.at_most": "At most {max} here.",
    "field.ttl": "When nobody uses it",
    "field.standby_ttl": "Sleep after",
    "field.archive_ttl": "Then archive after",
    "ttl.never": "never",
    "ttl.at_once": "at once",
    "wrong.title": "Please correct the fields below.",
    "wrong.name": "1 to 255 characters, not only spaces.",
    "wrong.description": "At most 10,000 characters.",
    "wrong.memo": "At most 10,000 characters.",
    "wrong.ide": "Choose one of these.",
    "wrong.image_ref": "A name as a registry writes it, like debian:bookworm.",
    "wrong.memory_mb": "A whole number from 64 to {max}.",
    "wrong.cpus": "A number from 0.1 to {max}.",
    "wrong.pids": "A whole number from 16 to {max}.",
    "wrong.disk_mb": "A whole number from 64 to {max}.",
    "wrong.standby_ttl_seconds": "At least 10 seconds.",
    "wrong.archive_ttl_seconds": "A number of seconds.",
    "wrong.username": "Letters, digits and . _ @ -, at most 64.",
    "wrong.password": "At least {min} characters.",
    "wrong.new": "At least {min} characters.",
    "wrong.old": "The current password is wrong.",
    "wrong.scope": "Choose one of these.",
    "wrong.role": "Choose one of these.",
    "wrong.expires_in_seconds": "Choose one of these.",
    "wrong.again": "The two are not the same.",
    # One workspace
    "ws.explain": "What is happening",
    "ws.is": "It is",
    "ws.wish": "It should be",
    "ws.next": "Next",
    "ws.now": "Now",
    "ws.nothing": "nothing",
    "ws.waits": "It waits for",
    "ws.since": "Changed",
    "ws.conditions": "Checks",
    "ws.history": "History",
    "ws.earlier": "Earlier",
    "ws.history.empty": "Nothing has happened yet.",
    "ws.logs": "IDE output",
    "ws.logs.empty": "Nothing yet.",
    "ws.logs.asleep": "There is output only while it runs.",
    "ws.logs.named": "IDE's output",
    "ws.logs.away": "The backend does not answer, so there is nothing to show. Refresh later.",
    "ws.sleeps": "Sleeps in",
    "ws.archives": "Archived in",
    "ws.facts": "Details",
    "ws.id": "ID",
    "ws.backend": "Runs on",
    "ws.home": "Stored on",
    "ws.created": "Created",
    "ws.owner": "Owner",
    "disk.short": (
        "The disk is nearly full: {free} MB are free, and nothing starts below {floor} MB. Archive or "
        "delete what you don't need; what runs goes on unless it grows."
    ),
    "ws.uses": "It uses",
    "used.memory_mb": "{n} MB of memory",
    "used.cpu": "{n} CPU",
    "used.disk_mb": "{n} MB of disk",
    "ws.limits": "{memory} MB · {cpus} CPU · {pids} processes · {disk} MB of disk",
    "ws.ttl": "{standby} / {archive}",
    "ws.ttl.label": "Sleep, archive after",
    "ws.not_yours": "Only its owner can open it.",
    "cond.volume_ready": "Home",
    "cond.archive_ready": "Archive",
    "cond.container_ready": "IDE",
    "cond.healthy": "Overall",
    "seen.Ready": "there and ready",
    "seen.Absent": "not there",
    "seen.NotReady": "there, not ready",
    "seen.Unidentified": "there, without its identity",
    "seen.Unreachable": "could not look",
    "seen.MarkMissing": "could not look: a mark is missing",
    "seen.NotLooked": "not looked at yet",
    "seen.Healthy": "nothing is wrong",
    "trouble.changed": "Its image or IDE was changed since then: recover it to try again.",
    "trouble.when": "during: {operation}",
    "recover.why": "Recovering is always safe: codehub looks again at what is there, and goes on from that.",
    "adopt.title": "Its files are still there",
    "adopt.why": (
        "What is missing is only what says which home they are. If nobody put other files there, the "
        "workspace can go on with them; they are archived anew when it sleeps for long."
    ),
    "loss.there": "Its files that are still there are deleted then.",
    "newest.title": "A newer archive is there",
    "newest.why": (
        "The database is older than the files, as after a backup of it was restored. Take the newest "
        "archive to go on with the latest work."
    ),
    "loss.title": "If the files can't be put back",
    "loss.why": (
        "You can continue without them. Whatever no archive holds is then gone for good: the workspace "
        "starts from the last good archive, or from an empty home if there is none."
    ),
    "loss.sure": "I understand that these files are then gone for good",
    "actor.ttl": "The idle timer",
    "actor.disk": "codehub (the disk is full)",
    "event.wish": "{actor} asked for: {after}",
    "event.settings": "{actor} changed its settings",
    "event.fields": "Changed: {fields}",
    "event.made": "{actor} created it",
    "event.operation": "{after}…",
    "event.operation.end": "{before} ended",
    "event.phase": "{after}",
    "event.error": "Problem: {after}",
    "event.error.end": "The problem is over",
    "event.recovery": "{actor} asked for recovery",
    "event.recovery.loss": "{actor} accepted the loss",
    "event.recovery.newest": "{actor} took the newest archive",
    "event.recovery.adopt": "{actor} adopted the home that is there",
    "event.deletion": "{actor} deleted it",
    "event.deletion.purge": "{actor} deleted it for good",
    "event.deletion.forgotten": "{actor} gave up on its deletion",
    "event.deletion.end": "{actor} undid its deletion",
    "op.PROVISIONING": "Making its home",
    "op.CREATE_EMPTY_ARCHIVE": "Making an empty archive",
    "op.RESTORING": "Restoring",
    "op.STARTING": "Starting",
    "op.STOPPING": "Going to sleep",
    "op.ARCHIVING": "Archiving",
    "op.DELETING": "Deleting",
    "op.NONE": "Nothing",
    "held_up": "Held up",
    "doing.PROVISIONING": "Preparing",
    "doing.CREATE_EMPTY_ARCHIVE": "Archiving",
    "doing.RESTORING": "Restoring",
    "doing.STARTING": "Starting",
    "doing.STOPPING": "Going to sleep",
    "doing.ARCHIVING": "Archiving",
    "doing.DELETING": "Deleting",
    # The trash
    "trash.title": "Trash",
    "trash.lead": "Deleted workspaces are kept for a while. Undo the deletion, or delete them for good.",
    "trash.empty": "The trash is empty",
    "trash.empty.why": "What you delete stays here for a while.",
    "trash.gone": "gone for good",
    "trash.deleted": "deleted",
    "forget.sure": "Forget “{name}”? Whatever its backend still holds stays behind.",
    "trash.sure": "Delete “{name}” for good? Nothing is kept, not even its archive.",
    # One's own account
    "account.title": "Account",
    "account.language": "Language",
    "account.language.why": "For this browser alone. Commands follow CODEHUB_LANG, or the language of your terminal.",
    "account.language.browser": "As the browser prefers",
    "language.name": "English",
    "account.password": "Password",
    "account.old": "Current password",
    "account.new": "New password",
    "account.again": "New password again",
    "account.change": "Change password",
    "account.change.why": "Changing it signs you out everywhere else and ends your access tokens.",
    "tokens.title": "Access tokens",
    "tokens.lead": "For the command line, scripts and CI. A token can do what you can, or only read.",
    "tokens.name": "Purpose",
    "tokens.scope": "Access",
    "scope.read": "only read",
    "scope.write": "read and change",
    "tokens.expires": "Expires",
    "tokens.days": "after {n} days",
    "tokens.create": "Make a token",
    "tokens.made": "Copy your new token now. It is not shown again.",
    "tokens.empty": "You have no tokens.",
    "tokens.used": "used",
    "tokens.never": "Never expires",
    "tokens.ended": "expired",
    "tokens.delete": "Delete token {name}",
    "tokens.sure": "Delete the token “{name}”? Whatever uses it is refused from then on.",
    # People
    "users.title": "People",
    "users.add": "Add a person",
    "users.create": "Add",
    "users.username": "Username",
    "users.password": "Password",
    "users.role": "Role",
    "role.admin": "admin",
    "role.member": "member",
    "users.disabled": "disabled",
    "users.disable": "Disable",
    "users.enable": "Enable",
    "users.make_admin": "Make admin",
    "users.make_member": "Make member",
    "users.disable.sure": (
        "Disable {name}? They are signed out everywhere and their tokens end; their workspaces and files "
        "stay. An admin can undo this with “Enable”; tokens have to be made anew."
    ),
    "users.make_member.sure": (
        "Make {name} a member? They no longer see other people's workspaces, People and Health; their own "
        "workspaces stay. An admin can undo this with “Make admin”."
    ),
    "users.done.add": "{name} can sign in now. Tell them their password; they can change it under “Account”.",
    "users.done.set_password": "{name} has a new password; their sessions and tokens have ended. Tell them.",
    "users.done.disable": "{name} is disabled: signed out everywhere, tokens ended, files kept.",
    "users.done.enable": "{name} can sign in again.",
    "users.done.make_admin": "{name} is an admin now.",
    "users.done.make_member": "{name} is a member now.",
    "users.set_password": "Set password",
    "users.new_password": "New password for {name}",
    "users.taken": "There is somebody of this name. Choose another.",
    "users.last_admin": "This is the last admin. Make somebody else an admin first.",
    "users.not_yourself": "You can't disable yourself. Another admin can do it.",
    "users.you": "you",
    "users.since": "added",
    "users.keys": "Keys",
    "keys.title": "What lets {name} in",
    "keys.lead": "Browsers that are signed in, and access tokens. Their last use is true to a minute.",
    "keys.session": "Signed in, in a browser",
    "keys.token": "token",
    "keys.since": "since",
    "keys.empty": "{name} is signed in nowhere and has no tokens.",
    "keys.end": "End them all",
    "keys.end.sure": (
        "End every session and token of {name}? They are signed out everywhere at once, and whatever uses "
        "a token of theirs is refused. They can sign in again with their password."
    ),
    "keys.back": "Back to people",
    # Health
    "health.title": "Health",
    "health.good": "Everything answers",
    "health.bad": "Something does not answer",
    "health.bad.why": (
        "What needs it waits until it answers again; nothing is lost. “codehub doctor” on the server says "
        "what to do."
    ),
    "health.checks": "codehub itself",
    "health.backends": "Backends",
    "health.controllers": "Controllers",
    "health.controllers.none": (
        "No controller was heard of in the last hour: nothing moves. Look whether “codehub up” still runs, "
        "and at its log."
    ),
    "health.heard": "last heard",
    "health.silent": "silent, last heard",
    "health.ok": "answers",
    "health.reaches": "reaches {backends}",
    # Why something is done, or is not
    "reason.Converged": "It is where it should be.",
    "reason.InTrash": "It is deleted. Its last archive is kept until its time in the trash is over.",
    "reason.Gone": "It is deleted, and nothing of it is kept.",
    "reason.Forgotten": (
        "An admin gave up on its deletion. What is left of it lies where it was until its time in the "
        "trash is over."
    ),
    "reason.CannotLook": "A backend can't be reached. Nothing begins, and no clock runs, until it answers.",
    "reason.NeedsAPerson": "It has a problem. A person has to recover or delete it.",
    "reason.BackingOff": "The last try failed. It is tried again after a pause.",
    "reason.Purge": "It is to be deleted for good, or its time in the trash is over: nothing is kept.",
    "reason.Deletion": "Its deletion was asked for, and nothing that is not archived remains.",
    "reason.DeletionStepsDown": (
        "Its deletion was asked for. It steps down first, so that a last archive exists."
    ),
    "reason.NothingToSave": (
        "Its deletion was asked for after its home was lost: there is nothing left to save."
    ),
    "reason.StrayContainer": "An IDE runs that should not. It is stopped first.",
    "reason.Condemned": (
        "Its home is archived, and clearing it away was begun: that is finished before the home is used "
        "again."
    ),
    "reason.Adopted": "Somebody said that the home which is there is this workspace's: it is taken for that.",
    "reason.MovesUp": "One step up, to where it should be.",
    "reason.MovesDown": "One step down, to where it should be.",
    "reason.NotSeenYet": "It is under way: what it is to bring about was not seen yet.",
    "reason.Seen": "It is done: its effect was seen.",
    "reason.TakenOver": "The operation was begun by a process that is gone: it is taken over under a new id.",
    "reason.GivenUp": "It was held up, and something else was asked for: it is let go.",
    "reason.TriedAgain": "It was held up. It is tried again.",
    "reason.Impossible": "What is seen has made the operation impossible. It is judged anew.",
    "reason.TimeIsUp": "The operation did not reach its end in time.",
    # What was seen
    "reason.NothingYet": "Nothing has been made yet.",
    "reason.VolumeAbsent": "There is no home.",
    "reason.VolumeIncomplete": "Its home was never completed.",
    "reason.VolumeUnidentified": "Its home is there, but not what says which one it is.",
    "reason.VolumeReady": "Its home is there.",
    "reason.VolumeForeign": "The home that is there is not this workspace's.",
    "reason.VolumeUnknown": "Homes could not be listed.",
    "reason.NoArchive": "There is no archive.",
    "reason.ArchiveGone": "Its archive is gone.",
    "reason.ArchiveReady": "The archive is there.",
    "reason.ArchiveIncomplete": "Its archive was never completed.",
    "reason.ArchiveUnknown": "Its archive could not be looked for.",
    "reason.InstanceAbsent": "Its IDE is not there.",
    "reason.InstanceStopped": "Its IDE does not run.",
    "reason.InstanceReady": "Its IDE runs and is healthy.",
    "reason.InstanceUnhealthy": "Its IDE runs but is not healthy.",
    "reason.InstanceUnknown": "IDEs could not be listed.",
    "reason.MarkMissing": "{mark} is missing, by which codehub knows where homes are.",
    "reason.ArchiveUnseen": "Its new archive was not looked at yet.",
    "reason.Healthy": "No rule is broken.",
    # What went wrong
    "reason.WithoutVolume": "Its IDE runs without its home.",
    "reason.IdentityLost": (
        "Its home is there with its files, but not what says which home it is. To adopt it goes on with "
        "them; to accept the loss deletes them."
    ),
    "reason.VolumeLost": "Its home is gone, and it may have held what no archive holds.",
    "reason.ArchiveLost": "Its archive is gone, and there is no home.",
    "reason.NotReplaced": (
        "A home is there that the database does not know of, and somebody worked in it: it is not replaced "
        "by the older archive, unless its loss is accepted."
    ),
    "reason.LastCopy": (
        "A home is there that the database does not know of, and the archive that it was restored from is "
        "gone: it is neither replaced nor deleted, unless its loss is accepted."
    ),
    "reason.NotDeleted": (
        "A home is there that the database does not know of, and somebody worked in it: only to delete it "
        "for good deletes it, unless its loss is accepted."
    ),
    "reason.WorkedOnSince": (
        "Its time in the trash is over, but somebody worked on it after its deletion: the database is "
        "older than the home. Undo its deletion to go on with it, or delete it for good."
    ),
    "reason.Unused": "Nobody used it for longer than its time to live.",
    "reason.Clamped": (
        "It starts with {memory} MB, {cpus} CPU, {pids} processes and {disk} MB of disk: "
        "its settings ask for more than is allowed here."
    ),
    "reason.DiedAgain": "Its IDE died again after {restarts} restarts in {minutes} minutes.",
    "reason.NewerArchive": (
        "There is an archive of this home (of {at}) that is newer than what the database names: the "
        "database is older than the home. Take the newest archive, or accept its loss."
    ),
    "reason.ArchivedSince": (
        "Its time in the trash is over, but somebody worked on it after its deletion, and archived it at "
        "{at}: the database is older than the home. Undo its deletion to go on with it, or delete it for "
        "good."
    ),
    "reason.TookLongerLastTry": "It took longer than {seconds} s. The last try said: {message}",
    "reason.TookLonger": "It took longer than {seconds} s.",
    "reason.EndedSaying": (
        "The IDE ended while it started, with exit code {exit_code}. The last that it said:\n{lines}"
    ),
    "reason.EndedEarly": "The IDE ended while it started, with exit code {exit_code}.",
    "reason.NoRoom": (
        "Only {free} MB are free where homes lie, and nothing starts below {floor} MB. Archive or delete "
        "what you don't need."
    ),
    "reason.Grew": "Its home grew by {grew} MB while the disk is nearly full. Nothing of it is deleted.",
    "reason.FailedAgain": "It failed {count} times, the last time so: {message}",
    "reason.NoAnswer": "The backend does not answer.",
    "reason.ImageNotAllowed": "The image {image} is not allowed here (CODEHUB_ALLOWED_IMAGES): choose another one, then recover it.",
    "reason.Verbatim": "{text}",
    "reason.Several": "{messages}",
    # What somebody asked for
    "reason.Visited": "Somebody opened it.",
    "reason.AskedOnAPage": "Asked for on a page.",
    "reason.AskedToCreate": "Asked to make it.",
    "reason.AskedToChange": "Asked to change {fields}.",
    "reason.AskedToStart": "Asked to start it.",
    "reason.AskedToStop": "Asked to stop it.",
    "reason.AskedToArchive": "Asked to archive it.",
    "reason.AskedToRecover": "Asked to recover it.",
    "reason.AskedToAcceptLoss": "Asked to recover it, and to accept what is lost.",
    "reason.AskedToTakeNewest": "Asked to recover it, and to take the newest archive.",
    "reason.AskedToAdopt": "Asked to recover it, and to adopt the home that is there.",
    "reason.AskedToKeepAwake": "Asked to keep it awake for {seconds} s.",
    "reason.AskedToPin": "Asked to pin it.",
    "reason.AskedToUnpin": "Asked to unpin it.",
    "reason.AskedToDelete": "Asked to delete it.",
    "reason.AskedToPurge": "Asked to delete it for good.",
    "reason.AskedToUndelete": "Asked to undo its deletion.",
    "reason.AskedToForget": "Asked to give up on its deletion.",
    # Why a request is refused
    "reason.OperationUnderWay": "{operation} is under way. Ask again when it is done.",
    "reason.DeleteAfterOperation": "{operation} is under way. Delete it when that is done.",
    "reason.UndeleteAfterDeleting": "DELETING is under way. Undo the deletion when it is done.",
    "reason.RecoveryRequired": "The workspace is in ERROR. Recover it first; `explain` says what went wrong.",
    "reason.RevisionChanged": (
        "Somebody changed it: it is at revision {revision} by now. Read it again, then decide."
    ),
    "reason.Deleted": "The workspace is deleted.",
    "reason.BeingDeleted": "The workspace is being deleted. Undo its deletion first, or wait until it is gone.",
    "reason.DeletionWasAskedFor": (
        "Its deletion was asked for, so there is nothing to go on with. Undo its deletion first, then "
        "recover it."
    ),
    "reason.TrashTimeOver": "The workspace is gone: its time in the trash is over.",
    "reason.NotBeingDeleted": "Only a deletion that is held up can be forgotten. Delete it first.",
    "reason.DeletionNotHeldUp": (
        "Nothing holds its deletion up: its backends answer. Wait, or delete it for good; if that fails, "
        "forget it."
    ),
    "reason.OwnerLimit": "{count} of {max} workspaces run already: {names}. {ways}",
    "reason.StopOne": "Stop one of them first.",
    "reason.RecoverOrDelete": "{name} is in ERROR: recover or delete it.",
    "reason.TotalLimit": (
        "All {max} places of this installation are taken. Try again when somebody's workspace has stopped."
    ),
    "reason.AboveCeiling": "it must be at most {max} here",
    "reason.TooManyWorkspaces": "nobody may have more than {max} workspaces here: delete one first",
    "reason.ImageNotListed": "this image is not allowed here; allowed is {allowed}",
    "reason.OfField": "{field}: {problem}",
    "reason.NoSuchWorkspace": "There is no such workspace.",
    "reason.ForeignWorkspace": "This is somebody else's workspace.",
    "reason.AdminsOnly": "Only an admin may do this.",
    "reason.OwnerOnly": "Only its owner may open a workspace.",
    "reason.ReadOnlyToken": "This token may only read; opening a workspace takes one that may write.",
    # What can be asked for
    "ask.Start": "Start",
    "ask.TryNow": "Try now",
    "ask.Stop": "Stop",
    "ask.Archive": "Archive",
    "ask.Recover": "Recover",
    "ask.Adopt": "Recover and adopt what is there",
    "ask.TakeNewest": "Recover with the newest archive",
    "ask.AcceptLoss": "Recover and accept the loss",
    "ask.KeepAwake": "Keep awake",
    "ask.Undelete": "Undo its deletion",
    "ask.Delete": "Delete",
    "ask.Purge": "Delete for good",
    "ask.Forget": "Forget",
    # What can be done about it
    "remedy.Timeout": (
        "Look at its IDE's output, then recover it: the step is tried again from where it stands."
    ),
    "remedy.RetryExceeded": "Remove the cause that the message names, then recover it.",
    "remedy.ActionFailed": "Nothing: it is tried again by itself.",
    "remedy.DataLost": (
        "Put its home or its archive back in place and recover it; adopt the home that is there, if only its "
        "identity is gone; or accept the loss, and go on without what is gone."
    ),
    "remedy.Unreachable": "Nothing: it goes on when the backend answers again.",
    "remedy.ImagePullFailed": "Correct the image's name or the registry's access, then recover it.",
    "remedy.ContainerWithoutVolume": "Recover it: its IDE is stopped first. Then it is judged anew.",
    "remedy.ArchiveCorrupted": (
        "Put a good copy of its archive in place and recover it; or accept the loss, and begin with an "
        "empty home."
    ),
    "remedy.CrashLoop": (
        "Look at its IDE's output, mend what makes it die (the image, a start-up file, its memory), then "
        "recover it."
    ),
    "remedy.NewerArchive": (
        "Take the newest archive, which holds the latest work; or accept its loss, and go on with what the "
        "database names."
    ),
    "remedy.KeptArchive": (
        "Undo its deletion and recover it with the newest archive; or delete it for good, which keeps "
        "nothing."
    ),
    # What is waited for
    "waits.Look": "a look at {conditions}: the backend does not answer",
    "waits.Mark": (
        "an admin. {message} If it is the right place and its disk is mounted, `codehub adopt-engine` "
        "makes the mark again"
    ),
    "waits.NextPass": "the controller's next pass",
    "waits.NextTry": "the next try, in {seconds} s. The last one said: {message}",
    "waits.ChangedTry": "the next try, in {seconds} s, with the image and the IDE as they are set by now",
    "waits.EndSeen": "{operation} to be seen as done",
    "waits.Person": "a person",
    "waits.Recovery": "a person. Its image or its IDE was changed since it failed: recover it",
    "waits.Remedy": "a person. {remedy}",
    # What could not be looked at
    "look.storage.volume_ready": "its home",
    "look.storage.archive_ready": "its archive",
    "look.infra.container_ready": "its IDE",
    # What went wrong, as a headline
    "trouble.Timeout": "It took too long",
    "trouble.RetryExceeded": "It failed again and again",
    "trouble.ActionFailed": "The last try failed",
    "trouble.DataLost": "Files are missing",
    "trouble.Unreachable": "A backend does not answer",
    "trouble.ImagePullFailed": "Its image can't be fetched",
    "trouble.ContainerWithoutVolume": "It runs without its home",
    "trouble.ArchiveCorrupted": "Its archive is damaged",
    "trouble.CrashLoop": "It keeps dying",
    # What is under way
    "under_way.NONE": "Waiting for its turn…",
    "under_way.PROVISIONING": "Making its home…",
    "under_way.CREATE_EMPTY_ARCHIVE": "Preparing its archive…",
    "under_way.RESTORING": "Restoring its files…",
    "under_way.STARTING": "Starting…",
    "under_way.STOPPING": "Going to sleep…",
    "under_way.ARCHIVING": "Putting its files into the archive…",
    "under_way.DELETING": "Deleting…",
    # Pages that stand before a workspace
    "proxy.waking": "{name} is waking up",
    "proxy.waking_why": "It opens here by itself as soon as it is ready.",
    "proxy.held_up": "It is held up, and tried again by itself.",
    "proxy.happening": "What is happening?",
    "proxy.archived": "{name} is in the archive",
    "proxy.archived_why": "Its files are kept there. They are restored as they were, then it starts.",
    "proxy.pending": "{name} has not been started",
    "proxy.pending_why": "Its home is made when it first starts.",
    "proxy.error": "{name} has a problem",
    "proxy.recover_why": (
        "Recovering is always safe: codehub looks again at what is there, and goes on from that."
    ),
    "proxy.limit": "{name} can't start yet",
    "proxy.limit_max": "You can run {max} at a time.",
    "proxy.limit_why": "Running now: {names}. Put one to sleep, and this one starts; its files stay.",
    "proxy.limit_problem": "{name} takes a place and has a problem: recover or delete it.",
    "proxy.limit_total": (
        "{max} can run here at a time, counting everybody's, and no place is free. Once one of them is "
        "asleep, try again."
    ),
    "proxy.missing": "There is no such workspace",
    "proxy.missing_why": "It does not exist, or it was deleted.",
    "proxy.sessions": "Your browser sent several sessions",
    "proxy.sessions_why": (
        "Another site of this domain may have set one of them. Delete the cookies of this site and of its "
        "domain, then sign in again."
    ),
    "proxy.foreign": "This workspace is somebody else's",
    "proxy.foreign_why": "Only its owner may open it, an admin neither.",
    "proxy.restore": "Restore and open",
    "proxy.start": "Start and open",
    "proxy.recover": "Recover",
    "proxy.stop": "Put {name} to sleep",
    "proxy.look": "What happened to {name}?",
    "proxy.again": "Try again",
    "proxy.details": "What happened?",
    "proxy.dashboard": "Your workspaces",
    # Times and amounts
    "measure.ago": "{t} ago",
    "measure.in": "in {t}",
    "measure.now": "just now",
    "measure.unit.s": "{n} s",
    "measure.unit.min": "{n} min",
    "measure.unit.h": "{n} h",
    "measure.unit.d": "{n} days",
    "measure.unit.d.1": "1 day",
    "measure.of": "{done} of {total}",
    "measure.left": "{t} left",
    "measure.stage.archive": "Archiving",
    "measure.stage.verify": "Checking the archive",
    "measure.stage.restore": "Restoring",
    "measure.stage.pull": "Fetching the image",
    # The command line
    "cli.doing.PROVISIONING": "making its home",
    "cli.doing.CREATE_EMPTY_ARCHIVE": "making an empty archive",
    "cli.doing.RESTORING": "restoring its files",
    "cli.doing.STARTING": "starting",
    "cli.doing.STOPPING": "stopping",
    "cli.doing.ARCHIVING": "archiving its files",
    "cli.doing.DELETING": "deleting",
    "cli.waiting": "waiting for its turn",
    "cli.held_up": "held up",
    "cli.done.PROVISIONING": "made its home",
    "cli.done.CREATE_EMPTY_ARCHIVE": "made an empty archive",
    "cli.done.RESTORING": "restored its files",
    "cli.done.STARTING": "started",
    "cli.done.STOPPING": "stopped",
    "cli.done.ARCHIVING": "archived its files",
    "cli.done.DELETING": "deleted",
    "cli.garbage.Replaced": "No workspace needs it any more.",
    "cli.garbage.Incomplete": "It was never completed.",
    "cli.garbage.Trashed": "Its workspace is deleted, and its time in the trash is over.",
    "cli.garbage.Stray": "Its workspace is archived, and nothing ever ran on it.",
    "cli.garbage.Unknown": "The database does not know its workspace.",
    "cli.stage.archive": "archiving its files",
    "cli.stage.verify": "reading the archive back",
    "cli.stage.restore": "restoring its files",
    "cli.stage.pull": "fetching its image",
}
