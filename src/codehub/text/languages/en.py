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
    "error.400.port": "This is no port, or nobody that it can be for.",
    "error.400.entry": "This link to a workspace is not complete. Open the workspace from the list.",
    "error.403": "This belongs to somebody else. Only its owner and admins can see it.",
    "error.403.admin": "Only an admin may see this. Ask one if you need it.",
    "error.403.entry": (
        "A workspace is entered by going there, not from inside another page. Open it from the list."
    ),
    "error.403.foreign": "This request came from another site. Open codehub at {base}.",
    "error.403.owner": "This workspace belongs to somebody else. Only its owner can open it.",
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
    "login.onward": "Signed in. Your workspace opens now.",
    "login.throttled": "Too many failed tries. Wait {seconds} s, then try again.",
    # Creating and changing
    "new.title": "New workspace",
    "new.lead": "It starts right away. You can change all of this later.",
    "new.create": "Create and start",
    "edit.title": "Settings for {name}",
    "edit.lead": "Image, IDE and resources apply from the next start; the rest at once.",
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
    "field.tab_script": "codehub in the IDE",
    "field.tab_script.hint": "It warns before sleep, offers to wake, and notices that somebody works there.",
    "field.cross_port_access": "Access between its ports",
    "field.cross_port_access.hint": (
        "A page at one port may ask another, and the IDE shows ports in itself. For you alone, and for no "
        "other workspace."
    ),
    "switch.yes": "yes",
    "switch.no": "no",
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
    "wrong.tab_script": "Choose one of these.",
    "wrong.cross_port_access": "Choose one of these.",
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
    "ports": "Ports",
    "ports.why": (
        "What listens in the workspace has an address of its own. You alone may enter it until you let "
        "others in."
    ),
    "ports.none": "Nothing listens now. Start a web server in the workspace, and it shows up here.",
    "ports.rests": "Ports show up here while the workspace runs.",
    "ports.away": "The backend does not answer, so what listens can't be seen.",
    "ports.silent": "nothing listens",
    "ports.for": "Who may enter port {port}",
    "ports.private": "You alone",
    "ports.shared": "Whom it is shared with",
    "ports.signed-in": "Everybody signed in",
    "ports.public": "Anybody",
    "ports.public.3600": "Anybody, for an hour",
    "ports.public.86400": "Anybody, for a day",
    "ports.public.604800": "Anybody, for a week",
    "ports.until": "ends in",
    "ports.set": "Set",
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
        "Only the mark that says whose home these files are is missing. If nobody put other files there, "
        "the workspace can go on with them; they are archived anew when it sleeps for long."
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
    "trash.lead": "Deleted workspaces are kept here. Undo the deletion, or delete them for good.",
    "trash.empty": "The trash is empty",
    "trash.empty.why": "What you delete comes here first.",
    "trash.gone": "gone for good",
    "trash.kept": "kept until somebody removes it",
    "trash.deleted": "deleted",
    "forget.sure": "Forget “{name}”? Whatever its backend still holds stays behind.",
    "trash.sure": "Delete “{name}” for good? Nothing is kept, not even its archive.",
    # One's own account
    "account.title": "Account",
    "account.language": "Language",
    "account.language.why": (
        "For this browser alone. Commands follow CODEHUB_LANG, or the language of your terminal."
    ),
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
    "reason.KeptInTrash": "It is deleted. Its last archive is kept until somebody deletes it for good.",
    "reason.Gone": "It is deleted, and nothing of it is kept.",
    "reason.Forgotten": (
        "An admin gave up its deletion, which deleted no file. What is left stays where it is until its "
        "time in the trash is over."
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
    # What a cluster says
    "reason.Unschedulable": (
        "The cluster has no place for it now. Of {nodes} nodes: {lacks} It starts by itself once there is "
        "room: another workspace stops, or an admin adds a node. Less memory or fewer CPUs may fit too."
    ),
    "reason.Unschedulable.one": (
        "The cluster has no place for it now. Of {nodes} node: {lacks} It starts by itself once there is "
        "room: another workspace stops, or an admin adds a node. Less memory or fewer CPUs may fit too."
    ),
    "reason.Unschedulable.unknown": (
        "The cluster has no place for it now: {message} It starts by itself once there is room: another "
        "workspace stops, or an admin adds a node. Less memory or fewer CPUs may fit too."
    ),
    "reason.LacksResource": "{nodes} lack {resource}.",
    "reason.LacksResource.one": "{nodes} lacks {resource}.",
    "reason.NodesRefuse": "{nodes}: {why}.",
    "reason.ImageNotPulled": (
        "The image {image} can't be fetched now: {message} The cluster goes on trying; choose another image "
        "if its name is wrong."
    ),
    "reason.ImageRefused": "The image {image} can't be had: {message} Choose another one, then recover it.",
    "reason.ContainerNotMade": "The node can't run it: {message} Look at its image, then recover it.",
    "reason.SandboxFailed": "The node can't set it up yet: {message} The cluster goes on trying.",
    "reason.VolumeNotMounted": (
        "Its home can't be mounted yet: {message} The cluster goes on trying; an admin can look at its claim "
        "and its storage class."
    ),
    "reason.VolumeNotAttached": (
        "Its home can't be attached to the node yet: {message} The cluster goes on trying. If another node "
        "that is gone still has it, an admin can mark that one as out of service."
    ),
    "reason.VolumeUnbound": (
        "The cluster can't make room for its home yet: {message} It goes on by itself once an admin has "
        "mended the storage class."
    ),
    "reason.ClaimHeld": (
        "The claim {claim} is being deleted, and something holds it: {finalizers}. An admin can see what "
        "that is with kubectl."
    ),
    "reason.OutOfMemory": (
        "It took more than its memory of {memory} and was ended. Give it more, then start it."
    ),
    "reason.Evicted": "Its node was short of something and ended it: {message} It can be started again.",
    "reason.Preempted": (
        "Something more important needed its place on the node: {message} It can be started again."
    ),
    "reason.PlaceTaken": "Something more important took its place on the node ({message}). {why}",
    "reason.QuotaExceeded": (
        "The cluster allows no more in this namespace: {message} It goes on once other workspaces stop, or "
        "an admin raises the quota."
    ),
    "reason.AdmissionRefused": (
        "The cluster does not take it: {message} An admin has to change that rule or ours."
    ),
    "reason.NotPermitted": (
        "codehub may not do that in the cluster: {message} An admin has to give it that right."
    ),
    "reason.NodeLost": (
        "Its node {node} does not answer. It may be running there all the same, so nothing takes its place. "
        "Once the node is back it goes on; if it never comes back, an admin says so: "
        "kubectl taint node {node} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
    ),
    "reason.KubernetesNotOurs": "{name} in the cluster is not this installation's: it is not touched.",
    "reason.KubernetesChanges": "Something else keeps changing {name} in the cluster.",
    "reason.MarkOfNamespace": "The ConfigMap {name} of the namespace {namespace}",
    "reason.PodNotMade": "The cluster makes no Pod for the Job {job}.",
    "reason.PodNotBegun": "The node has not begun with the Pod {pod}.",
    "reason.PodDeleted": "The Pod {pod} was deleted before its work was done.",
    "reason.PodFailed": "The Pod {pod} has failed.",
    "reason.JobRemains": "The Job {job} does not go away.",
    "reason.ReachesWorkspaces": (
        "Workspaces reach each other and the cluster: its network plug-in does not enforce NetworkPolicies."
    ),
    "reason.ReachesApiServer": "Workspaces reach the API server, which their NetworkPolicy forbids.",
    "reason.ReachesNode": "Workspaces reach the node that they run on, which their NetworkPolicy forbids.",
    "reason.ReachesMetadata": (
        "Workspaces reach the metadata address 169.254.169.254, which their NetworkPolicy forbids."
    ),
    "reason.NotAdmitted": (
        "codehub does not reach workspaces from here: CODEHUB_K8S_REACHED_FROM must name where its proxies "
        "and controllers run."
    ),
    "reason.ProbeUnderWay": "Another codehub is at it, or was killed at it in the last minutes.",
    "reason.ProbeLate": "A Pod of {image} was not there after {seconds} s (kubectl describe job {job}).",
    "reason.ProbeSilent": (
        "A Pod of {image} ended with {exit_code} and said nothing: is it codehub's own image, of this "
        "version?"
    ),
    "reason.Grew": "Its home grew by {grew} MB while the disk is nearly full. Nothing of it is deleted.",
    "reason.FailedAgain": "It failed {count} times, the last time so: {message}",
    "reason.NoAnswer": "The backend does not answer.",
    "reason.ImageNotAllowed": (
        "The image {image} is not allowed here (CODEHUB_ALLOWED_IMAGES): choose another one, then recover it."
    ),
    "reason.Verbatim": "{text}",
    "reason.Several": "{messages}",
    # What backends say: homes
    "reason.NoSuchVolume": "The home {volume_id} is not there.",
    "reason.NothingToAdopt": "There is no home to adopt.",
    "reason.HasIdentity": "The home that is there says which one it is: it is not adopted.",
    "reason.OtherVolume": "The home that is there is not {volume_id}: it is not touched.",
    "reason.VolumeInUse": "Its home is in use: this waits until nothing runs on it.",
    "reason.VolumeHeld": "Its home is in use: {text}",
    "reason.NewerJob": "A newer attempt took the place of this one.",
    "reason.JobSilent": "The job for the home ended and did not say how: {text}",
    "reason.JobStopped": "The job for the home was told to stop.",
    "reason.GrantsUnreadable": "The job for the home can't read what it may do: {text}",
    "reason.GrantsRefused": "The archive store {url} refuses what the job for the home asks: {text}",
    "reason.HomeNotEmpty": "{path} holds files already: nothing is restored over them.",
    "reason.OtherFilesystem": (
        "{path} is another filesystem, and its files would not be archived: move them into the home "
        "or unmount it."
    ),
    "reason.TooManyDevices": "The home holds too many pipes or device nodes: remove them.",
    "reason.NeedsSandbox": (
        "{path} is read-only and has extended attributes, so without bubblewrap (and user namespaces) "
        "it could not be restored: install bubblewrap, or let its owner write it (chmod u+w)."
    ),
    "reason.HomeUnreadable": "The home can't be read whole: {text}",
    "reason.HomeChanged": "The home changed while it was archived: {text}",
    "reason.HomeUnwritable": "The home can't be written: {text}",
    "reason.HomeNotRestored": "The home can't be restored as it was: {text}",
    "reason.NoAcls": "The filesystem of the homes keeps no ACLs: {text}",
    "reason.HomesFull": "There is no space left for homes: {text}",
    "reason.DiskFailed": "The disk did not take the home: {text}",
    "reason.PathUnusable": "{path} can't be used: {text}",
    "reason.PathNotRemoved": "{path} can't be removed: {text}",
    "reason.PathForeign": "{path} belongs to somebody else: remove it.",
    "reason.NoLocalHome": "{path} is not the place of a local home.",
    "reason.OtherInstallation": "{place} belongs to another installation: {mark}",
    "reason.NotAnswering": "{place} does not answer.",
    "reason.MarkToAdopt": (
        "{mark} is missing, by which codehub knows where homes are. If it is the right place and its disk is "
        "mounted, make it again: codehub adopt-engine"
    ),
    "reason.MarkOfHomes": "The file {path} in the directory of homes",
    "reason.MarkOfData": "The file {path} in the data directory",
    "reason.NameOfHomes": "The name of the directory of homes in {path} of the data directory",
    "reason.NameOfData": "The name of the data directory in {path} of the data directory",
    "reason.MarkOfEngine": "The volume {name} of the Docker engine",
    # Archives
    "reason.ArchiveOvertaken": "The operation was taken over: its archive is not committed.",
    "reason.ArchiveNotThere": "The archive {key} is gone, or was never completed.",
    "reason.ArchiveDamaged": "The archive {key} can't be trusted: {problem}",
    "reason.ArchiveUnfit": "The archive {key} can't be restored here: {problem}",
    "reason.ArchiveNotAsWritten": (
        "The archive {key} is not what was written, so it is not committed: {problem}"
    ),
    "reason.ArchiveLonger": (
        "The archive is longer than was to be expected of the home: more than {size} bytes."
    ),
    "reason.HomeUnfit": "The home could not be restored from its archive: {problem}",
    "reason.AclUnkept": (
        "{path} has an ACL, which the filesystem of the homes can't keep: mount it with ACLs."
    ),
    "reason.CapabilityUngiven": (
        "{path} has a capability, which only root can give: remove it (setcap -r), or run codehub as root."
    ),
    "reason.AclOfUnknown": (
        "{path} has an ACL for somebody whom codehub, not being root, can't name: remove that entry "
        "(setfacl -x)."
    ),
    "reason.AclByName": "{path} has an ACL that names somebody by name, not by number: install bubblewrap.",
    "reason.AttributeMalformed": "{path} has an ACL or a capability that is not as codehub writes it.",
    "reason.PathTooLong": "a path of {length} bytes is longer than this system allows ({max}): {path}",
    "reason.ChecksumWrong": "its checksum is wrong",
    "reason.MetaLater": "its .meta is of format {format}, and this codehub knows format {known}",
    "reason.StreamRefused": "it is not as codehub writes archives ({text})",
    "reason.ArchivesFull": "There is no space left in the archive store {url}: {text}",
    "reason.StoreRefused": "The archive store {url} refuses this: {text}",
    "reason.StoreUnusable": "The archive store {url} can't be used: {text}",
    "reason.StoreWithoutBucket": "There is no bucket for {url}: make it, or correct CODEHUB_ARCHIVE_URL.",
    "reason.StoreCredentials": (
        "The archive store {url} refuses these credentials: check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, "
        "and what they may do ({text})"
    ),
    "reason.StoreUnsigned": (
        "Jobs can't be let at archives without AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to sign with: "
        "set them."
    ),
    "reason.StoreUnmarked": "{place} does not have the file {mark}: is it mounted?",
    # Local instances
    "reason.UserIdsTaken": "All {count} user ids of this installation are taken.",
    "reason.ProcessesRemain": "The processes {pids} of its IDE can't be ended.",
    "reason.InstanceUnseen": "Its IDE runs where it can't be seen from here.",
    "reason.IdeNotStarted": "Its IDE could not be started: {text}",
    "reason.IdeNotInstalled": (
        "{ide} is not installed on this machine (there is: {installed}): install it, or choose another."
    ),
    "reason.IdeNotOffered": "{ide} is no IDE that can run here (there is: {offered}).",
    "reason.IdeFailsHere": "{ide} can't be run here: {problem}",
    "reason.IdeSilent": "no answer in {seconds} s {text}",
    "reason.IdeNotCopied": "{ide} can't be copied to {path}: {text}",
    "reason.ToolsMissing": "An IDE can't be run as a user of its own: {text}",
    "reason.HomeBarred": (
        "Without a sandbox the workspace's user can't enter {path}: install bubblewrap, or let others "
        "enter it (chmod o+x {path})."
    ),
    # Docker
    "reason.DockerUnreachable": "The Docker engine {url} can't be asked: {text}",
    "reason.DockerCutOff": "Docker's stream broke off: {text}",
    "reason.DockerRefused": "Docker refused ({status}): {text}",
    "reason.DockerFailed": "Docker failed ({status}): {text}",
    "reason.DockerListPartial": "Docker could not list all volumes: {text}",
    "reason.DockerNotOurs": "{name} in the Docker engine is not this installation's: it is not touched.",
    "reason.KubernetesUnreachable": "The Kubernetes API {server} can't be asked: {text}",
    "reason.KubernetesSilent": "The Kubernetes API {server} does not answer in time.",
    "reason.KubernetesUntrusted": (
        "The certificate of the Kubernetes API {server} is not to be trusted: {text}"
    ),
    "reason.KubernetesStranger": "The Kubernetes API {server} does not accept codehub's credentials.",
    "reason.KubernetesCredentials": (
        "codehub's credentials for the Kubernetes API {server} can't be used: {text}"
    ),
    "reason.KubernetesPlugin": "The kubeconfig's credential plugin {name} gives no credentials: {text}",
    "reason.KubernetesRefused": "Kubernetes refused ({status}): {text}",
    "reason.KubernetesListExpired": "Listing {kind} takes longer than Kubernetes keeps a list.",
    "reason.KubernetesUnseen": "The {kind} of the cluster can't be seen: {reason}",
    "reason.KubernetesNotListed": "The list is not complete yet, or no longer current.",
    "reason.KubernetesCommand": "Kubernetes can't run the command: {text}",
    "reason.KubernetesCommandLost": "The connection to the command was lost: nobody knows how it ended.",
    "reason.ContainerChanges": "Something else keeps changing the container {name}.",
    "reason.ContainerNotRemoved": "The container {name} can't be removed.",
    "reason.ContainerHoldsVolume": "A container that Docker can't remove holds its home: {text}",
    "reason.HelperFailed": "The helper for the home ended with exit code {exit_code}: {text}",
    "reason.NetworkOpen": (
        "The Docker network {network} lets containers reach each other: remove it, and it is made "
        "anew as it must be."
    ),
    "reason.ImageUnavailable": "The image {image} can't be had: {text}",
    "reason.ImageNotFetched": "The image {image} could not be fetched: {text}",
    "reason.RegistryUnreachable": "The registry of {image} can't be reached: {text}",
    # Any backend
    "reason.NoAdapter": "This process does not reach {backend}.",
    # A way into an instance
    "reason.InstanceNotRunning": "The workspace does not run.",
    "reason.NotEntered": "The workspace can't be entered: {text}",
    "reason.NoSuchCommand": "There is no command {command} in the workspace.",
    "reason.NoSuchDirectory": "There is no directory {directory} in the workspace.",
    "reason.CommandUnusable": "This is no command that a program can be given.",
    "reason.NothingListens": "Nothing listens on port {port} in the workspace.",
    "reason.NoLoopback": "The workspace has no network of its own: the port would be this machine's.",
    "reason.HelperNotConnected": "The helper image {image} can't connect: it has no perl, or was ended.",
    "reason.NoRelayProgram": (
        "The workspace's image has neither perl nor python3: its ports can't be reached."
    ),
    # What garbage collection leaves
    "reason.NeededByNow": "It is needed by now.",
    "reason.InstanceRunsOnIt": "An IDE runs on it.",
    "reason.ChangedMeanwhile": "Its workspace changed while it was looked at.",
    "reason.ItemUnidentified": (
        "Its files are there, but the mark that says whose home they are is missing. `--orphans` removes it."
    ),
    "reason.ItemWorkedOn": (
        "Somebody worked on it, and its workspace knows nothing of that: the database is older. "
        "`--orphans` removes it."
    ),
    "reason.ItemWorkedOnSince": (
        "Somebody worked on it after the deletion that was forgotten, and no file goes by that. "
        "`--orphans` removes it."
    ),
    "reason.ItemLastCopy": (
        "The archive that it was restored from is gone, and its workspace knows nothing of it. "
        "`--orphans` removes it."
    ),
    "reason.OfBackend": "{backend}: {message}",
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
    "reason.PortShared": "Opened port {port}: “{visibility}”.",
    "reason.PortSharedUntil": "Opened port {port} until {until}: “{visibility}”.",
    "reason.PortMadePrivate": "Made port {port} private.",
    # Why a request is refused
    "reason.OperationUnderWay": "{operation} is under way. Ask again when it is done.",
    "reason.DeleteAfterOperation": "{operation} is under way. Delete it when that is done.",
    "reason.UndeleteAfterDeleting": "DELETING is under way. Undo the deletion when it is done.",
    "reason.RecoveryRequired": "The workspace is in ERROR. Recover it first; `explain` says what went wrong.",
    "reason.RevisionChanged": (
        "Somebody changed it: it is at revision {revision} by now. Read it again, then decide."
    ),
    "reason.Deleted": "The workspace is deleted.",
    "reason.BeingDeleted": (
        "The workspace is being deleted. Undo its deletion first, or wait until it is gone."
    ),
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
    # Errors of the API
    "reason.WrongLogin": "The name or the password is wrong.",
    "reason.WrongOldPassword": "The old password is wrong.",
    "reason.TooManyTries": "Too many failed tries. Wait {seconds} s, then try again.",
    "reason.SignInFirst": (
        "Sign in first: POST /api/v1/login, or send a token as `Authorization: Bearer cht_…`."
    ),
    "reason.KeyEnded": "What you came in by has just been ended. Sign in again.",
    "reason.SeveralSessions": (
        "Your browser sent several sessions, and another site of this domain may have set one of "
        "them. Delete the cookies of this site and of its domain, then sign in again."
    ),
    "reason.SignInCrowded": "Too many people are signing in right now. Wait {seconds} s, then try again.",
    "reason.TokenOnlyReads": "This token may only read.",
    "reason.OtherSite": "This request comes from another site. Open codehub at {base}.",
    "reason.TooManyRequests": "You have sent more than {max} requests in a minute. Wait a moment.",
    "reason.NoSuchToken": "You have no such token.",
    "reason.NoSuchUser": "There is no such user.",
    "reason.UsernameTaken": "There is a user of this name. Choose another.",
    "reason.NameTaken": "You have a workspace of this name. Choose another.",
    "reason.LastAdmin": "This is the last admin. Make somebody else an admin first.",
    "reason.TooManyTokens": "nobody may have more than {max} tokens here: delete one first",
    "reason.TooManyStreams": "nobody may have more than {max} streams open here: close one first",
    "reason.KeyUsedBefore": "it was used before, for something else",
    "reason.GivenTwice": "it is given more than once",
    "reason.NoOrigins": (
        "Workspaces have no origins of their own here, so their ports can't be opened. An operator turns "
        "them on by CODEHUB_WORKSPACE_HOST."
    ),
    "reason.OpenedByOwner": "Only its owner may let others into it.",
    "reason.PortAboveCeiling": "the most that is allowed here is {max}",
    "reason.PublicNeedsEnd": "what anybody may enter needs a time when that ends",
    "reason.EndIsPast": "it must be in the future",
    "reason.TooManyPorts": "a workspace has at most {max} ports that are not private: make one private first",
    "reason.OfDeletedWorkspace": (
        "The workspace that this Idempotency-Key made is deleted. Another key makes another."
    ),
    "reason.FollowedByAdmins": "Only an admin may follow others' workspaces.",
    "reason.SeenByAdmins": "Only an admin may see others' workspaces.",
    "reason.OneWayOn": "choose one of accept_loss, take and adopt: each is another way to go on",
    "reason.IdeNotHere": "{ide} is not there; there is {offered}",
    "reason.BackendNotHere": "{backend} is not set up here; there is {offered}",
    "reason.HomesNotHere": "with {backend} it must be one of {offered}",
    "reason.NotAvailable": "Something this needs does not answer. Try again soon.",
    "reason.OurMistake": "Something went wrong here. The log has it under this request's X-Request-Id.",
    "reason.BodyUnreadable": (
        "The body can't be read: it is no JSON in UTF-8, or no JSON that anybody would write."
    ),
    "reason.BodyNoJson": "The body is not JSON.",
    "reason.NothingHere": "There is nothing at this address.",
    "reason.NoSuchMethod": "There is no such method here. The header Allow names those that there are.",
    # What is wrong with a field
    "problem.missing": "it is missing",
    "problem.extra_forbidden": "there is no such field",
    "problem.string_type": "it must be text",
    "problem.string_unicode": "it contains half of a character (a lone surrogate)",
    "problem.string_too_short": "it must have a length of at least {min_length}",
    "problem.string_too_long": "it must have a length of at most {max_length}",
    "problem.string_pattern_mismatch": "it must look like {pattern}",
    "problem.int_parsing_size": "it is too large",
    "problem.greater_than": "it must be more than {gt}",
    "problem.greater_than_equal": "it must be at least {ge}",
    "problem.less_than_equal": "it must be at most {le}",
    "problem.enum": "it must be {expected}",
    "problem.value_error": "{error}",
    "problem.otherwise": "it is not a valid value",
    "problem.whole": "it must be a whole number",
    "problem.number": "it must be a number",
    "problem.truth": "it must be true or false",
    "problem.object": "it must be an object",
    "problem.no_json": "it is no JSON from character {position} on",
    "problem.not_said_json": "it is not said to be JSON: send Content-Type: application/json",
    "problem.nul": "it contains a NUL character",
    "problem.control": "it contains a control character, {character}",
    "problem.empty": "it is empty",
    "problem.reserved": "this name is reserved",
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
    "waits.Host": "the cluster. {message}",
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
    "proxy.door": "This link is no longer good",
    "proxy.door_why": "It works once, for half a minute, and only in the browser that asked for it.",
    "proxy.door_again": "Open the workspace again",
    "proxy.frame": "Open this port once",
    "proxy.frame_why": (
        "Inside another page codehub can't see who you are. Open it in a tab of its own, then try again here."
    ),
    "proxy.frame_open": "Open in a tab",
    "proxy.port": "Ports can't be opened here",
    "proxy.port_why": "Workspaces here have no network of their own, so a port would be this machine's.",
    "proxy.silent": "Nothing listens on port {port} yet",
    "proxy.silent_why": "The workspace runs, but no program in it listens on port {port}.",
    "proxy.silent_then": "Start one there. This page opens it by itself as soon as it listens.",
    "proxy.asleep": "This is asleep",
    "proxy.asleep_why": "Only the workspace's owner can wake it. Come back later.",
    "proxy.asleep_owner": "I am its owner",
    "proxy.restore": "Restore and open",
    "proxy.start": "Start and open",
    "proxy.recover": "Recover",
    "proxy.stop": "Put {name} to sleep",
    "proxy.look": "What happened to {name}?",
    "proxy.show": "Go to {name}",
    "proxy.again": "Try again",
    "proxy.details": "What happened?",
    "proxy.dashboard": "Your workspaces",
    # In the tab of an IDE: a title, a sentence and a button each
    "tab.asleep.title": "Asleep",
    "tab.asleep.why": "This workspace sleeps. Its files are as you left them.",
    "tab.asleep.do": "Wake",
    "tab.starting.title": "Starting",
    "tab.starting.why": "This workspace is on its way. Open it to see how far it is.",
    "tab.starting.do": "Open",
    "tab.again.title": "It was started again",
    "tab.again.why": "This page belongs to an earlier run. Load it again to go on.",
    "tab.again.do": "Load again",
    "tab.archived.title": "Archived",
    "tab.archived.why": "The files of this workspace are in the archive, as you left them.",
    "tab.archived.do": "Open",
    "tab.unstarted.title": "Not started",
    "tab.unstarted.why": "This workspace is not running.",
    "tab.unstarted.do": "Open",
    "tab.problem.title": "There is a problem",
    "tab.problem.why": "This workspace needs a decision.",
    "tab.problem.do": "What happened?",
    "tab.warning.title": "About to sleep",
    "tab.warning.why": "In {s} seconds, unless somebody uses it.",
    "tab.warning.do": "Keep awake",
    "tab.away.title": "codehub is restarting",
    "tab.away.why": "Or your network is away. It is tried again by itself.",
    "tab.away.do": "Try now",
    "tab.limit.title": "It can't start yet",
    "tab.limit.why": "Too many are running.",
    "tab.limit.do": "Choose what to stop",
    "tab.signed_out.title": "You are signed out",
    "tab.signed_out.why": "Sign in to go on. What is running goes on running.",
    "tab.signed_out.do": "Sign in",
    "tab.gone.title": "This workspace is gone",
    "tab.gone.why": "It was deleted, or you may no longer open it.",
    "tab.gone.do": "Look",
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
    "cli.garbage.removed": "removed {item}: {why}",
    "cli.garbage.would_remove": "would remove {item}: {why}",
    "cli.garbage.failed": "could not remove {item}: {why}",
    "cli.garbage.unknown": "unknown, left alone (--orphans removes it): {item}",
    "cli.garbage.forgotten": (
        "left of a forgotten workspace, goes when that is deleted for good or its time in the trash is "
        "over: {item}"
    ),
    "cli.garbage.newer": (
        "newer than what its workspace names, so it is kept (is the database older than the homes?): {item}"
    ),
    "cli.garbage.unreachable": "could not look at {message}",
    "cli.garbage.leftover": "left over by something that died, goes when it is old enough: {leftover}",
    "cli.garbage.events": "forgot {count} old events",
    "cli.garbage.none": "There is no garbage.",
    "cli.thing.instance": "IDE {name}",
    "cli.thing.volume": "home {name}",
    "cli.thing.archive": "archive {name}",
    "cli.never": "never",
    "cli.ago": "{span} ago",
    "cli.ahead": "in {span}",
    "cli.explain.goes": "{name} is {state}: it should be gone.",
    "cli.explain.rests": "{name} is {state}, as it should be.",
    "cli.explain.moves": "{name} is {state}. It should be {goal}.",
    "cli.explain.nothing": "nothing",
    "cli.explain.next": "{operation} is next",
    "cli.explain.actions": "You can",
    "cli.explain.decisions": "The last decisions, newest first",
    "cli.explain.by": "by {actor}",
    "cli.explain.error": "{reason} while {operation}",
    "cli.explain.times": "{count} times",
    "cli.view.goal": " (it should be {goal})",
    "cli.view.backends": "{runs_as}, files in {storage}",
    "cli.view.limits": "{memory_mb} MB, {cpus} processors, {pids} processes, {disk_mb} MB of disk",
    "cli.view.standby_ttl": "when unused for {span}",
    "cli.view.archive_ttl": "after sleeping for {span}",
    "cli.view.that_is": "that is {at}",
    "cli.view.undone": "can be undone until {until}",
    "cli.view.undone.always": "can be undone until somebody deletes it for good",
    "cli.view.when_purged": "when deleted for good",
    "cli.view.used.memory_mb": "{n} MB",
    "cli.view.used.cpu": "{n} processors",
    "cli.view.used.disk_mb": "{n} MB of disk",
    "cli.heading.NAME": "NAME",
    "cli.heading.PORT": "PORT",
    "cli.heading.PROCESS": "PROCESS",
    "cli.heading.FOR": "FOR",
    "cli.heading.UNTIL": "UNTIL",
    "cli.heading.URL": "URL",
    "cli.heading.PINNED": "PINNED",
    "cli.heading.OWNER": "OWNER",
    "cli.heading.STATE": "STATE",
    "cli.heading.IDE": "IDE",
    "cli.heading.LAST USED": "LAST USED",
    "cli.heading.GONE": "GONE",
    "cli.heading.SLEEPS": "SLEEPS",
    "cli.heading.ID": "ID",
    "cli.heading.WHEN": "WHEN",
    "cli.heading.WHAT": "WHAT",
    "cli.heading.CHANGE": "CHANGE",
    "cli.heading.BY": "BY",
    "cli.heading.WHY": "WHY",
    "cli.heading.SCOPE": "SCOPE",
    "cli.heading.EXPIRES": "EXPIRES",
    "cli.label.name": "name",
    "cli.label.state": "state",
    "cli.label.held up": "held up",
    "cli.label.error": "error",
    "cli.label.address": "address",
    "cli.label.description": "description",
    "cli.label.memo": "memo",
    "cli.label.owner": "owner",
    "cli.label.id": "id",
    "cli.label.ide": "ide",
    "cli.label.image": "image",
    "cli.label.runs as": "runs as",
    "cli.label.limits": "limits",
    "cli.label.uses": "uses",
    "cli.label.sleeps": "sleeps",
    "cli.label.archived": "archived",
    "cli.label.awake until": "awake until",
    "cli.label.in the IDE": "in the IDE",
    "cli.view.no_tab_script": "nothing of codehub's",
    "cli.label.ports": "ports",
    "cli.view.cross_port_access": "reach one another in a browser",
    "cli.label.last used": "last used",
    "cli.label.pinned": "pinned",
    "cli.label.created": "created",
    "cli.label.deleted": "deleted",
    "cli.label.archive": "archive",
    "cli.label.doing": "doing",
    "cli.label.why": "why",
    "cli.label.waits for": "waits for",
    "cli.label.since": "since",
    "cli.stage.archive": "archiving its files",
    "cli.stage.verify": "reading the archive back",
    "cli.stage.restore": "restoring its files",
    "cli.stage.pull": "fetching its image",
    # The help of commands
    "help.codehub": "Self-hosted cloud development environments.",
    "help.codehub.epilog": (
        "CODEHUB_URL and CODEHUB_TOKEN, or `codehub login`, say which codehub is meant. `codehub COMMAND "
        "--help` says more."
    ),
    "help.section.use": "Use a codehub",
    "help.section.run": "Run one",
    "help.section.parts": "Run its parts as processes of their own",
    "help.login": (
        "Sign in, and stay signed in on this machine.\n\nThe password is used once, for a token (90 days, "
        "`codehub token list` shows it) that is kept in\n~/.config/codehub/login.json for you alone."
    ),
    "help.login.url": (
        "Where it is, e.g. https://code.example.org. Else CODEHUB_URL, else http://127.0.0.1:8000."
    ),
    "help.login.username": "Your name there. Asked for if not given.",
    "help.login.password_stdin": "Read the password from stdin.",
    "help.login.token_stdin": "Read a token from stdin, and keep that.",
    "help.logout": "Sign out: this machine's token ends, and is forgotten here.",
    "help.password": (
        "Change your password, which ends your other sessions and tokens. The one of this machine stays."
    ),
    "help.password.stdin": "Read two lines from stdin: the old one, then the new one.",
    "help.explain": (
        "Say why a workspace is where it is.\n\nWhere it should be, what is done about it, what it waits for "
        "and since when,\nwhat failed, what you can do, and the last five decisions."
    ),
    "help.up": (
        "Run codehub on this machine, all of it. Ctrl-C stops it.\n\nNeeds nothing beside Python: its own "
        "PostgreSQL, homes, archives and workspaces are under\nCODEHUB_DATA_DIR. docs/settings.md has what "
        "can be set."
    ),
    "help.api": (
        "Serve the API and the dashboard alone.\n\nOn CODEHUB_HOST:CODEHUB_PORT, for `codehub proxy`."
    ),
    "help.proxy": (
        "Serve the public port alone.\n\nWorkspaces from here, all else from the `codehub api` at "
        "CODEHUB_API_URL."
    ),
    "help.controller": (
        "Bring every workspace to its desired state.\n\nObserve, judge, plan, persist, execute, over and "
        "over."
    ),
    "help.migrate": (
        "Bring the database to this version's schema, and exit. Every start does it too, but for\n"
        "`--contract`."
    ),
    "help.migrate.contract": "Also take away what only earlier versions need: none serves any more.",
    "help.doctor": "Check this machine: what would work, what not, and what to do.",
    "help.gc": "Remove what no workspace needs any more.",
    "help.gc.dry_run": "Only say what would be removed.",
    "help.gc.orphans": "Also remove what the database does not know.",
    "help.adopt-engine": (
        "Make the mark again by which codehub knows its Docker engine, or its directory of homes.\n\n`docker "
        "volume prune` may have removed it. Says first what is there and what is not, and asks."
    ),
    "help.backup": (
        "Copy everything to a new place: the database, the archives, and homes that are in none.\n\nBeside a "
        "codehub that may run. Exits with 1 if anything is not in it, and names that."
    ),
    "help.restore": (
        "Make an installation from a back-up, where there is none.\n\nInto CODEHUB_DATA_DIR, or the database "
        "and the archive store that are set. Says first what is in it, and\nasks."
    ),
    "help.ws": "Workspaces: make, open, start, stop, archive, delete them.",
    "help.ws.create": "Make a workspace, and start it.",
    "help.ws.create.name": "What to call it.",
    "help.ws.change": "Change a workspace. Image, IDE and resources count from its next start.",
    "help.ws.pin": "Pin a workspace to the top of lists.",
    "help.ws.unpin": "Let a workspace stand in lists by its age again.",
    "help.ws.list": "List workspaces, pinned ones first, then the newest.",
    "help.ws.list.owner": "Whose: me, or (admins) a name or all.",
    "help.ws.show": "Show everything about a workspace.",
    "help.ws.open": "Print a workspace's address, and open it if there is a browser. The visit wakes it.",
    "help.ws.ports": (
        "List what listens in a workspace; open a port, or let others into it.\n\nA port is an origin of its "
        "own. It is private until its owner shares it."
    ),
    "help.ws.ports.open_port": "Print the address of this port, and open it if there is a browser.",
    "help.ws.ports.share": "Let others into a port: private, shared, signed-in or public.",
    "help.ws.ports.until": "When it is private again: a time, or how long from now, as 2h. public needs it.",
    "help.ws.logs": "Print what a workspace's IDE writes.",
    "help.ws.logs.json": 'Print each line as {"line": …}.',
    "help.ws.events": "Print a workspace's history: every wish, operation, phase and error, by whom and why.",
    "help.ws.start": "Start a workspace, from wherever it is: what was archived is restored first.",
    "help.ws.stop": "Stop a workspace. Its files stay where they are, and the next visit wakes it.",
    "help.ws.archive": "Stop a workspace and put its files into the archive.",
    "help.ws.recover": "Drop a workspace's error and judge it anew, from what is there.",
    "help.ws.awake": "Keep a running workspace from falling asleep for a while.",
    "help.ws.delete": (
        "Delete a workspace. Its last archive is kept for a while, and `undelete` undoes the deletion."
    ),
    "help.ws.undelete": "Undo a deletion. `codehub ws list --deleted` shows which can be undone.",
    "help.ws.undelete.name": "A deleted workspace's name or id.",
    "help.ws.forget": (
        "Give up on a deletion that a dead backend holds up (admins). No file goes: `codehub gc` lists what "
        "is\nleft."
    ),
    "help.token": "Tokens: keys for programs.",
    "help.token.create": "Make a token. Its secret goes to stdout, this once; codehub keeps only a hash.",
    "help.token.create.name": "What it is for.",
    "help.token.list": "List your tokens.",
    "help.token.delete": "Delete a token: it opens nothing any more, at once.",
    "help.user": (
        "People: add, list, disable, set passwords, end sessions and tokens. On the server, beside a running "
        "codehub."
    ),
    "help.user.add": "Add a user.",
    "help.user.add.admin": "Make them an admin.",
    "help.user.passwd": "Set a user's password, which ends their sessions and tokens.",
    "help.user.disable": "Disable a user: their sessions and tokens end.",
    "help.user.disable.undo": "Enable them again.",
    "help.user.keys": "List what lets a user in, sessions and tokens, or end it.",
    "help.user.keys.end": "End them all: whatever is open by them ends too.",
    "help.user.list": "List everybody.",
    "help.option.help": "Show this message and exit.",
    "help.option.version": "Print the version and exit.",
    "help.option.install_completion": "Install completion for the current shell.",
    "help.option.show_completion": (
        "Show completion for the current shell, to copy it or customize the installation."
    ),
    "help.option.json": "Print JSON, for programs.",
    "help.option.yes": "Do not ask.",
    "help.option.wait": "Wait until it is there, and show how far it is.",
    "help.option.timeout": "Wait no longer than this: 90s, 5m, 2h. Then exit with 9.",
    "help.option.name": "A workspace's name or id.",
    "help.option.name_or_id": "Its name or its id.",
    "help.option.owner": "Whose it is, if named: me, or (admins) a name or all.",
    "help.option.username": "Their name.",
    "help.option.password_stdin": "Read the password from stdin instead of asking.",
    "help.option.location": "A directory, file:///… or s3://…",
    "help.option.accept_loss": "Go on without what is gone. Asks first; --yes does not.",
    "help.option.take_newest": "Go on with the newest archive, though the database names an older one.",
    "help.option.adopt": "Go on with the volume that is there, whose identity is lost. Asks first.",
    "help.option.archive_after": "Archive it after sleeping for so long: 12h, 7d, never.",
    "help.option.sleep_after": "Stop it when unused for so long: 30m, 2h, never.",
    "help.option.cross_port_access": (
        "Whether a page at one of its ports may ask another in its owner's browser, and its IDE show ports "
        "in itself."
    ),
    "help.option.tab_script": (
        "Whether codehub's script is in its IDE's page: it warns before sleep, offers to wake, and notices "
        "who works there."
    ),
    "help.option.backend": "What runs it: local-process, local-docker, k8s.",
    "help.option.storage": "What holds its files: local-dir, docker-volume, k8s-pvc, object-store.",
    "help.option.cpus": "Processors, e.g. 1.5.",
    "help.option.memory": "Memory, in MB.",
    "help.option.pids": "Processes at most.",
    "help.option.disk_mb": "Disk for its files, in MB.",
    "help.option.description": "A line about it.",
    "help.option.memo": "Notes.",
    "help.option.ide": "One of {ides}.",
    "help.option.image": "Its container image (Docker, Kubernetes).",
    "help.option.no_start": "Only make it.",
    "help.option.new_name": "Call it this.",
    "help.option.no_browser": "Only print the address.",
    "help.option.purge": "Keep nothing: this can't be undone. Asks first.",
    "help.option.deleted": "Those whose deletion can be undone, instead.",
    "help.option.query": "Words in the name or the description.",
    "help.option.phase": "RUNNING, STANDBY, ARCHIVED, PENDING or ERROR.",
    "help.option.duration": "How long: 30m, 2h; 12h at most.",
    "help.option.tail": "How many lines, from the end.",
    "help.option.follow": "Go on as it writes more.",
    "help.option.limit": "How many, the newest.",
    "help.option.scope": "read changes nothing.",
    "help.option.expires": "How long it lasts: 12h, 30d, or never.",
    "help.parser.Usage": "Usage",
    "help.parser.Arguments": "Arguments",
    "help.parser.Options": "Options",
    "help.parser.Commands": "Commands",
    "help.parser.default": "default",
    # What commands say
    "cli.warning": "codehub: WARNING: {text}",
    "cli.recover.one_of": "choose one of --accept-loss, --take-newest and --adopt",
    "cli.recover.loss": "Go on without what {name} has lost?",
    "cli.recover.loss.deletes": " Its files that are still there are deleted (--adopt goes on with them).",
    "cli.recover.adopt": "Take the volume that is there for the home of {name}?",
    "cli.awake": "{name} stays awake until {until}.",
    "cli.awake.later": "{name} is {state}. Once started, it stays awake until {until}.",
    "cli.purge": "Purge {name}? Its files are gone for good",
    "cli.forget": "Forget {name}? Whatever its backend still holds stays behind",
    "cli.forgotten": "{name} is forgotten. `codehub gc` lists what is left of it.",
    "cli.undo": "Until {until} this can be undone: {command}",
    "cli.undo.always": "Until somebody purges it this can be undone: {command}",
    "cli.timeout.without_wait": "--timeout says how long to --wait",
    "cli.no_longer_waits": "You no longer wait for {name}. It goes on by itself.",
    "cli.is": "{name} is {state}.",
    "cli.will_be": "{name} will be {goal}. It is {state}. (--wait shows how far it is.)",
    "cli.will_be_deleted": "{name} will be deleted. It is {state}.",
    "cli.waited_for_first": "With --wait it is waited for first.",
    "cli.failed_in_error": "{name} is in ERROR: {reason}: {message}",
    "cli.failed_while": "{name} failed while {operation}: {reason}: {message}",
    "cli.overtaken.undone": "The deletion of {name} was undone meanwhile.",
    "cli.overtaken.deleted": "{name} is being deleted.",
    "cli.overtaken.wish": "Meanwhile somebody wants {name} {wish}, not {goal}.",
    "cli.timed_out": "{name} is not there yet: {doing}. It goes on by itself.",
    "cli.bytes_of": "{done} of {total}",
    "cli.bytes_left": "{span} left",
    "cli.pinned": "{name} is pinned.",
    "cli.unpinned": "{name} is no longer pinned.",
    "cli.pin": "pinned",
    "cli.nothing_to_change": "nothing to change: see `codehub ws change --help`",
    "cli.changed": "Changed {fields} of {name}.",
    "cli.list.no_trash": "The trash is empty.",
    "cli.list.no_match": "There is no such workspace.",
    "cli.list.none": "You have no workspaces yet. Make one: codehub ws create NAME --wait",
    "cli.ports.none": "Nothing listens in {name} now.",
    "cli.ports.nothing": "nothing",
    "cli.ports.private": "you alone",
    "cli.ports.shared": "whom it is shared with",
    "cli.ports.signed-in": "everybody signed in",
    "cli.ports.public": "anybody",
    "cli.ports.opened": "{url} is open for: {who}.",
    "cli.ports.opened.until": "{url} is open for: {who}, until {until}.",
    "cli.ports.silent": "Nothing listens on port {port} in {name}, and it is not shared.",
    "cli.ports.until": "--until goes with --share.",
    "cli.ports.no_port": "{text!r} is no port: it must be a number from 1 to 65535.",
    "cli.ports.no_visibility": "{text!r} is none of {all}.",
    "cli.ports.no_time": "{text!r} is no time: write 2h, or 2026-12-24T18:00.",
    "cli.open.is": "It is {state}: the page says how to go on, or codehub ws start {name} --wait",
    "cli.logs.none": "{name} is {state}, and there is no output of it.",
    "cli.logs.cut": "(cut off, and followed anew: lines may be missing here)",
    "cli.token.made": "Made {name} ({id}). This is the only time it is shown.",
    "cli.token.list.none": "You have no tokens.",
    "cli.token.none": "You have no token {name}.",
    "cli.token.several": "{count} tokens are called {name}. Say which one by its id:",
    "cli.token.one": "used {used}, expires {expires}",
    "cli.token.deleted": "Deleted {name}.",
    "cli.find.several": "{count} workspaces are called {name}. Say which one by its id:",
    "cli.find.none": "There is no workspace {name} here.",
    "cli.find.none.trash": "There is no workspace {name} in the trash.",
    "cli.find.none.owner": "There is no workspace {name} of {owner}.",
    "cli.find.in_trash": "It is in the trash. Undo its deletion: {command}",
    "cli.find.similar": "Did you mean {names}?",
    "cli.find.or": " or ",
    "cli.no_time": "{text!r} is no time: say it as 90s, 5m, 2h or 1d",
    "cli.no_time.never": "{text!r} is no time: say it as 90s, 5m, 2h or 1d, or never",
    "cli.account.no_token": "the token holds characters that no token has",
    "cli.account.no_token.do": (
        "Copy it again, without what is around it. CODEHUB_TOKEN goes before what `codehub login` has kept."
    ),
    "cli.account.no_home": "your home directory, where `codehub login` keeps its token, is not known",
    "cli.account.no_home.do": "Set HOME; or set CODEHUB_URL and CODEHUB_TOKEN.",
    "cli.account.password_in_address": (
        "an address holds no name and no password: use `codehub login` or CODEHUB_TOKEN"
    ),
    "cli.account.no_address": "{text!r} is no address: it must be http://host:port or https://host",
    "cli.account.unreadable": "{path} can't be read ({error})",
    "cli.account.unreadable.do": "Remove it, and `codehub login` again.",
    "cli.account.unwritable": "{path} can't be written ({error})",
    "cli.client.no_tls": "{url} can't be reached: it does not speak https there",
    "cli.client.no_tls.do": "Try {url}",
    "cli.client.unreachable": "{url} can't be reached: {error}",
    "cli.client.unreachable.do": (
        "Is codehub running there? CODEHUB_URL, or `codehub login URL`, says where it is."
    ),
    "cli.client.moved": "{url} leads to {there}",
    "cli.client.moved.do": "Use the address that it leads to.",
    "cli.client.signed_out": "You are not signed in.",
    "cli.client.no_key.environment": "The token in CODEHUB_TOKEN opens nothing any more.",
    "cli.client.no_key": "Your token opens nothing any more.",
    "cli.client.no_key.do": "Correct CODEHUB_TOKEN or unset it: no `codehub login` replaces it.",
    "cli.client.no_codehub": "{url} answers, but not as codehub does",
    "cli.client.no_codehub.status": "{url} answers, but not as codehub does (status {status})",
    "cli.no_text": "what you gave is not text in UTF-8",
    "cli.no_text.stdin": "what came on stdin is not text in UTF-8",
    "cli.nobody_confirms": "this can't be undone, and nobody is there to be asked: add --yes",
    "cli.nobody_answers": "nobody is there to be asked: give {option}",
    "cli.output_full": "codehub: the output can't be written: {error}",
    "cli.login.two_keys": "stdin holds one thing: a password or a token",
    "cli.login.no_https": "{url} is not https: whoever is on the way can read your password",
    "cli.login.environment": "CODEHUB_TOKEN is set, and goes before what is kept: unset it",
    "cli.login.signed_out": "You are not signed in on this machine.",
    "cli.login.out": "Signed out of {url}.",
    "cli.login.in": "Signed in to {url} as {username}. Kept in {path}.",
    "cli.login.old_password": "Old password",
    "cli.login.new_password": "New password",
    "cli.login.password": "Password",
    "cli.login.username": "Username",
    "cli.login.password_changed": "Your password is changed.",
    "cli.login.token_lives": (
        "codehub: the token lives on at {url} ({error}): end it with `codehub token delete`"
    ),
    "cli.login.no_token": "there is no token on stdin",
    "cli.migrate.applied": "applied {name}",
    "cli.migrate.none": "The database is up to date.",
    "cli.adopt.sure": "Make it again?",
    "cli.adopt.made": "made again: {mark}",
    "cli.adopt.none": "Every mark is there: nothing to do.",
    "cli.backup.done": "backed up to {place}",
    "cli.backup.restored": "restored from {place}",
    "cli.backup.has": "This back-up has:",
    "cli.backup.sure": "Restore it?",
    "cli.backup.taken": "taken {at} of installation {installation}",
    "cli.backup.database": "the database ({size})",
    "cli.backup.archives": "{count} archives ({size})",
    "cli.backup.home": "the home of {name}, which no archive had",
    "cli.backup.missing": "NOT in it: {name}: {reason}",
    "cli.backup.part": "{part}: {done} of {total}{amount}",
    "cli.user.no_name": (
        "{name!r} can't be a name: letters, digits and . _ @ - only, at most 64, and not `me` or `all`"
    ),
    "cli.user.no_password": "this can't be a password: {problem}",
    "cli.user.password_on_stdin": "give the password on stdin, with --password-stdin",
    "cli.user.added": "added {role} {name}",
    "cli.user.password_changed": "changed the password of {name}",
    "cli.user.enabled": "enabled {name}",
    "cli.user.disabled": "disabled {name}",
    "cli.user.taken": "there is a user {name} already",
    "cli.user.unknown": "there is no user {name}",
    "cli.user.last_admin": "this is the last admin: make somebody else an admin first",
    "cli.user.none": "There is nobody yet.",
    "cli.user.is_disabled": "disabled",
    "cli.user.no_keys": "{name} is signed in nowhere and has no tokens.",
    "cli.user.keys_ended": "All of them have ended.",
    "cli.heading.KEY": "KEY",
    "help.parser.required": "required",
    # What a start, a back-up and its restore say
    "server.starting.database": "codehub 1 of 3: starting the database (the first time takes a few seconds)",
    "server.starting.backend": "codehub 2 of 3: trying out what runs workspaces",
    "server.starting.address": "codehub 3 of 3: opening the address",
    "server.open_elsewhere": (
        "CODEHUB_HOST={host} listens on every address, but without CODEHUB_PUBLIC_BASE_URL people can sign "
        "in only on this machine: set CODEHUB_PUBLIC_BASE_URL to the address that they open, as "
        "http://name:port"
    ),
    "server.line": "codehub: {text}",
    "server.warning": "codehub: WARNING: {text}",
    "server.stopping": (
        "stopping. Workspaces are put to sleep, and the next start wakes those that were awake."
    ),
    "server.stopped": "stopped",
    "server.steps.password": (
        "  Keep the password, it is shown this once. This sets another:\n  {codehub} user passwd admin\n"
    ),
    "server.steps": (
        "\nIn a browser\n  Open {url}, sign in as admin, and make a workspace.\n{password}{names}\nOr in "
        "another terminal\n  {codehub} login {url} --username admin\n  {codehub} ws create hello --wait\n  "
        "{codehub} ws open hello\n\n{access} Ctrl-C stops it.\nThe next start finds everything as it was."
    ),
    "server.steps.names": "  With Safari: start codehub with CODEHUB_WORKSPACE_HOST=none.\n",
    "server.access.local": "Only this machine reaches it.",
    "server.access.open": (
        "WHOEVER REACHES {host}:{port} CAN TRY TO SIGN IN; without https they can listen, too."
    ),
    "server.second": (
        "one runs in {directory} already (pid {pid}). To start another, stop that one (kill {pid}), or set "
        "CODEHUB_DATA_DIR and CODEHUB_PORT"
    ),
    "server.second.address": (
        "one runs in {directory} already (pid {pid}): open {address}. To start another, stop that one (kill "
        "{pid}), or set CODEHUB_DATA_DIR and CODEHUB_PORT"
    ),
    "server.no_port": (
        "can't listen on {host}:{port} ({error}): set {setting} to a free port or CODEHUB_HOST to an address "
        "of this machine"
    ),
    "server.no_database": (
        "CODEHUB_DATABASE_URL: there is no way into the database at {place}{reason}. Start that server or "
        "correct the address, postgresql://user:password@host:port/database; without it codehub brings its "
        "own"
    ),
    "server.this_machine": "this machine",
    "server.set_address": "the address that is set",
    "server.no_codehub": (
        "there is no codehub in {directory}: start it once with `codehub up`, or say where it is with "
        "CODEHUB_DATA_DIR"
    ),
    "server.wrong_redis": "CODEHUB_REDIS_URL: {error}: correct what stands behind ? in it, or leave that out",
    "server.wrong_endpoint": "AWS_ENDPOINT_URL {endpoint!r} is no http:// or https:// address: correct it",
    "server.no_archives": "{reason} Give codehub access to it, or correct {setting}",
    "server.no_docker": (
        "{reason} Start Docker, or correct DOCKER_HOST; CODEHUB_INSTANCE_BACKEND=local-process does without "
        "it"
    ),
    "server.no_workspace_runs": "no workspace could run on this machine: {reason}",
    "server.no_ide": (
        "CODEHUB_IDE={ide} is not on this machine: there is {installed}. Install it (`make code-server` "
        "builds code-server), name one that is there, or leave CODEHUB_IDE unset"
    ),
    "server.no_ide.none": (
        "CODEHUB_IDE={ide} is not on this machine: there is none. Install it (`make code-server` builds "
        "code-server), name one that is there, or leave CODEHUB_IDE unset"
    ),
    "server.other_machine": (
        "{backend} belongs to one machine, and {machine} has it: stop codehub there, or set "
        "CODEHUB_INSTANCE_BACKEND"
    ),
    "server.no_workers": (
        "not all edge workers serve after {seconds:g} s: the lines above say why; CODEHUB_PROXY_WORKERS says "
        "how many there are"
    ),
    "server.role_needs": (
        "`codehub {role}` runs beside other processes of codehub: set {settings} (docs/operators.md), or use "
        "`codehub up`, which needs nothing"
    ),
    "server.and": " and ",
    "server.no_cluster_access": "{error}. Correct CODEHUB_K8S_KUBECONFIG, or run codehub in the cluster",
    "server.no_rights": (
        "codehub may not {rights} in the namespace {namespace}: give its account the Role of "
        "docs/kubernetes.md"
    ),
    "server.namespace": "the namespace {namespace} of {server}: {reason}",
    "server.patch_not_taken": "CODEHUB_K8S_POD_PATCH: no workspace will start. {reason}",
    "server.isolation.untried": "whether the cluster keeps workspaces apart could not be tried: {reason}",
    "server.isolation.wrong": "{problem} See docs/kubernetes.md, What workspaces reach",
    "server.isolation.no_policies": (
        "codehub can make no NetworkPolicies itself, and nobody else's hold: {reason}"
    ),
    "server.isolation.no_address": (
        "by which address workspaces see this machine can't be told: set CODEHUB_K8S_REACHED_FROM to it "
        "(docs/kubernetes.md)"
    ),
    "server.no_cluster": (
        "{reason} Start the cluster, or correct CODEHUB_K8S_KUBECONFIG; "
        "CODEHUB_INSTANCE_BACKEND=local-process does without it"
    ),
    "server.mark.missing": "{mark} is missing: it marks where this installation's homes are.",
    "server.mark.homes": "The database knows of {known} homes there. Here now: {present}.",
    "server.mark.absent": "  not here: {name}",
    "server.mark.effect": (
        "If this is another engine or directory, or its disk is not mounted, correct that instead.\nIf it is "
        "the right one, codehub makes the mark again, and nothing else: it goes on with the homes that are "
        "here, and says of\nthose that are not that they are lost. Nothing is deleted."
    ),
    "server.backup.format": (
        "the back-up is of format {format!r}, and this codehub knows format {known}: use a later codehub"
    ),
    "server.backup.unreadable": "{file} of the back-up can't be read ({error}): it is damaged",
    "server.backup.no_archive": "its archive {key} is not in the store",
    "server.backup.half": "the back-up was not completed, and {place} holds half of one: {reason}",
    "server.backup.not_empty": "{place} is not empty: name a new place for each back-up",
    "server.backup.not_copied": "its home is not in an archive, and could not be copied: {reason}",
    "server.restore.incomplete": (
        "there is no complete back-up in {place}: it has no {file}, which `codehub backup` writes last"
    ),
    "server.restore.nothing": "nothing was restored: {reason}",
    "server.restore.database": (
        "the database that CODEHUB_DATABASE_URL names is not empty: stop codehub, and name an empty one. "
        "Nothing is restored over another"
    ),
    "server.restore.unmarked": (
        "{place} holds something, and no codehub's mark: name an empty place in {setting}"
    ),
    "server.restore.foreign": "{place} is another installation's: name an empty place in {setting}",
    "server.restore.running": (
        "a codehub runs in {directory} (pid {pid}): stop it, and name an empty CODEHUB_DATA_DIR"
    ),
    "server.restore.not_empty": (
        "{directory} is not empty: move it away, or name another CODEHUB_DATA_DIR. Nothing is restored over "
        "another installation"
    ),
    "server.restore.no_dump": "the back-up has no {file}",
    "server.restore.damaged": "{file} of the back-up is damaged: its checksum is wrong",
    "server.restore.other": "{file} is not that of {manifest}: another installation's",
    "cli.backup.part.database": "database",
    "cli.backup.part.archives": "archives",
    "cli.backup.part.homes": "homes",
    "cli.backup.part.verified": "verified",
    # What the doctor says
    "doctor.part.python": "python",
    "doctor.part.data directory": "data directory",
    "doctor.part.homes": "homes",
    "doctor.part.disk": "disk",
    "doctor.part.database": "database",
    "doctor.part.port": "port",
    "doctor.part.origins": "origins",
    "doctor.part.archives": "archives",
    "doctor.part.backend": "backend",
    "doctor.part.sandbox": "sandbox",
    "doctor.part.limits": "limits",
    "doctor.part.ide": "ide",
    "doctor.part.docker": "docker",
    "doctor.part.kubernetes": "kubernetes",
    "doctor.part.isolation": "isolation",
    "doctor.part.redis": "redis",
    "doctor.can_not_start": "codehub can't start as configured: {parts}.",
    "doctor.runs": "codehub runs already.",
    "doctor.can_start": "codehub can start as configured.",
    "doctor.limits.do": (
        "each workspace, and all of them together, can take what the machine has: run codehub as root, or "
        "let it run in a container or unit that is bound itself"
    ),
    "doctor.limits.total": "all workspaces together: {memory_mb} MB, {pids} processes",
    "doctor.limits.no_root": "only root can make control groups",
    "doctor.limits.none": "no control groups can be made below {root}",
    "doctor.disk.short": "{free} MB free, and no workspace starts below {floor} MB",
    "doctor.disk.short.do": "free some space, or lower CODEHUB_DISK_FLOOR_MB",
    "doctor.disk.kept": (
        "{free} MB free, workspaces start while there are {floor} MB; sizes of homes are kept by the "
        "filesystem"
    ),
    "doctor.disk.measured": (
        "{free} MB free, workspaces start while there are {floor} MB; sizes of homes are measured, not kept: "
        "{reason}"
    ),
    "doctor.database.runs": "embedded PostgreSQL, running (pid {pid})",
    "doctor.database.rests": "embedded PostgreSQL {version}, not running",
    "doctor.database.do": (
        "start the server, or correct CODEHUB_DATABASE_URL, or unset it to use the embedded one"
    ),
    "doctor.database.unreachable": "can't connect: {error}",
    "doctor.database.old.do": "use PostgreSQL {version} or later",
    "doctor.database.server": "PostgreSQL {version}",
    "doctor.python.do": "install Python 3.11 or later",
    "doctor.data_dir.do": "give this user the directory, or set CODEHUB_DATA_DIR to one that is writable",
    "doctor.data_dir.short": "{directory}: only {free} MB free",
    "doctor.data_dir.short.do": "free some space, or set CODEHUB_DATA_DIR elsewhere",
    "doctor.data_dir.runs": "{directory} ({free} MB free), codehub runs there (pid {pid})",
    "doctor.data_dir.ok": "{directory} ({free} MB free)",
    "doctor.homes.do": "give this user the directory, or set CODEHUB_HOMES_DIR to one that is writable",
    "doctor.homes.ok": "in {directory}",
    "doctor.port.ours": "{url} is this codehub's (pid {pid})",
    "doctor.port.taken": "{host}:{port} is taken",
    "doctor.port.taken.do": "stop what listens there (another codehub?), or set CODEHUB_PORT to a free port",
    "doctor.port.unusable": "{host}:{port} can't be used ({error})",
    "doctor.port.unusable.do": (
        "set CODEHUB_HOST to an address of this machine and CODEHUB_PORT to a port this user may use"
    ),
    "doctor.port.free": "{host}:{port} is free",
    "doctor.archives.do": "set CODEHUB_ARCHIVE_URL to a directory that is writable",
    "doctor.backend": "{instances}, homes: {homes}",
    "doctor.sandbox.do": (
        "apt-get install bubblewrap passt: without it a local workspace is a plain process that sees this "
        "user's files"
    ),
    "doctor.sandbox.unused": "nothing: only local-process workspaces use it",
    "doctor.sandbox.none": "bubblewrap is not installed",
    "doctor.sandbox.unusable": "bubblewrap can't make a sandbox here: {reason}",
    "doctor.sandbox.unusable.do": (
        "allow user namespaces (sysctl kernel.unprivileged_userns_clone=1), or run as root"
    ),
    "doctor.sandbox.shared": "bubblewrap ({program}), but this machine's network is shared: {reason}",
    "doctor.sandbox.shared.do": (
        "apt-get install passt: without it every workspace reaches what listens on this machine's loopback"
    ),
    "doctor.sandbox.ok": "bubblewrap ({program}), networks by {gateway}",
    "doctor.ide.image": "comes with the image",
    "doctor.ide.ok": "{ide} ({program})",
    "doctor.ide.others": "{ide} ({program}), and {others}",
    "doctor.ide.none": "none found",
    "doctor.ide.missing": "{ide} not found",
    "doctor.ide.do": (
        "install code-server (`make code-server` builds it), or `pip install jupyterlab` beside codehub"
    ),
    "doctor.path.unseen": "{path} can't be looked at ({error})",
    "doctor.path.file": "{path} is a file, not a directory",
    "doctor.path.read_only": "{path} can't be written to",
    "doctor.docker.do": "install and start Docker, or set DOCKER_HOST",
    "doctor.docker.do.optional": (
        "install and start Docker, or set DOCKER_HOST; needed only with CODEHUB_INSTANCE_BACKEND=local-docker"
    ),
    "doctor.docker.wrong_host": "DOCKER_HOST {error}",
    "doctor.docker.wrong_host.do": "correct DOCKER_HOST",
    "doctor.docker.late": "{host} does not answer (not in {seconds:g} s)",
    "doctor.docker.silent": "{host} does not answer ({error})",
    "doctor.docker.other": "{host} answers, but not as Docker does",
    "doctor.docker.old": "Docker {version} at {host} is too old",
    "doctor.docker.old.do": "use Docker 20.10 or later",
    "doctor.docker.no_mark": (
        "Docker {version} at {host}: the volume {mark} is missing, by which codehub knows where homes are"
    ),
    "doctor.docker.no_mark.do": (
        "correct DOCKER_HOST or mount the engine's disk; if it is the right engine: codehub adopt-engine"
    ),
    "doctor.docker.ok": "Docker {version} at {host}",
    "doctor.origins.ok": "every name below {domain} leads here, by {address}",
    "doctor.origins.local": (
        "*.{domain}: Chromium and Firefox know every such name; this machine's programs and Safari do not"
    ),
    "doctor.origins.local.do": (
        "nothing for Chromium and Firefox; a forwarded port keeps its number. For Safari: let its machine's "
        "resolver answer *.{domain} with 127.0.0.1, or set CODEHUB_WORKSPACE_HOST=none. Programs use "
        "`path_url`, below {base}, and a token"
    ),
    "doctor.origins.local.start": "start codehub on this port: it answers at these names by itself",
    "doctor.origins.unknown": "no name below {domain} is known on this machine",
    "doctor.origins.unknown.do": (
        "make a wildcard record, *.{domain}, that leads where {base} leads, or set "
        "CODEHUB_WORKSPACE_HOST=none"
    ),
    "doctor.origins.silent": (
        "a name below {domain} leads to {address}, and codehub can't be asked there ({error})"
    ),
    "doctor.origins.other": (
        "a name below {domain} leads to {address}, and what answers there is not codehub (status {status})"
    ),
    "doctor.origins.do": (
        "start codehub, and let the reverse proxy pass every name below {domain} on to it: with the Host as "
        "it came, and a certificate for *.{domain}"
    ),
    "doctor.redis.unset": "not configured",
    "doctor.redis.unset.do": "nothing: PostgreSQL carries the hints",
    "doctor.redis.unusable": "{place} can't be used ({error})",
    "doctor.redis.unusable.do": (
        "start Redis, correct CODEHUB_REDIS_URL, or unset it: hints then go through PostgreSQL"
    ),
    "doctor.redis.ok": "Redis {version} at {place}",
    "doctor.s3.unset": "s3 bucket {bucket}: {names} not set",
    "doctor.s3.and": " and ",
    "doctor.s3.unset.do": "set the usual AWS_… variables",
    "doctor.s3.wrong_endpoint": "AWS_ENDPOINT_URL {endpoint!r} is no http:// or https:// address",
    "doctor.s3.wrong_endpoint.do": "correct AWS_ENDPOINT_URL",
    "doctor.s3.silent": "{host}:{port} does not answer ({error})",
    "doctor.s3.silent.do": "start the object store, or correct AWS_ENDPOINT_URL",
    "doctor.s3.do": "correct CODEHUB_ARCHIVE_URL or the AWS_… variables, or make the bucket",
    "doctor.s3.late": "s3 bucket {bucket}: no answer in {seconds:g} s",
    "doctor.s3.refused": "s3 bucket {bucket}: {reason}",
    "doctor.s3.new": "s3 bucket {bucket}, new to codehub",
    "doctor.s3.ok": "s3 bucket {bucket}, of installation {installation}",
    "doctor.cluster.jobs": "Jobs lack something",
    "doctor.cluster.patch.do": "correct CODEHUB_K8S_POD_PATCH",
    "doctor.cluster.do": "start the cluster, or correct CODEHUB_K8S_KUBECONFIG",
    "doctor.cluster.rights": "{version} at {server}: in {namespace} codehub may not {rights}",
    "doctor.cluster.rights.do": "give its account the Role of docs/kubernetes.md",
    "doctor.cluster.ok": "{version} at {server}, namespace {namespace}",
    "doctor.cluster.uncounted": (
        "the memory and processors of workspaces are not known there: install metrics-server, "
        "and let codehub list its Pods"
    ),
    "doctor.isolation.ok": "workspaces reach neither each other nor the cluster",
    "doctor.isolation.new": (
        "codehub was never started there: its first start makes the policies, and tries them"
    ),
    "doctor.isolation.do": "see docs/kubernetes.md, What workspaces reach",
    "doctor.isolation.untried": "could not be tried. {reason}",
    "doctor.isolation.untried.do": "see to that, and ask again",
    # What is wrong with a password
    "password.short": "it must have at least {length} characters",
    "password.long": "it must have at most {length} characters",
    "password.nul": "it contains a NUL character",
    "password.no_text": "it is not text in UTF-8",
    # What the proxy answers to programs
    "program.undecided": "codehub can't say who you are or where this is right now.",
    "program.api_silent": "codehub's API does not answer right now.",
    "program.gone": "The workspace is gone.",
    "program.not_listening": "The workspace runs, but nothing answers on its port.",
    "program.no_address": "The workspace runs, but its address is not known.",
    "program.other_site": "This was asked for by a page of another site.",
    "program.waking": "The workspace is still waking up.",
    "program.sleeps": "The workspace sleeps. Open it in a browser to wake it.",
    "program.under_way": "The workspace can't answer yet: {operation} is under way. Try again soon.",
    "program.changing": "The workspace can't answer yet. Try again soon.",
    "program.archived": "The workspace is in the archive. Start it to restore it.",
    "program.pending": "The workspace has not been started.",
    "program.error": "The workspace is in ERROR. Recover it; `explain` says what went wrong.",
    "program.sign_in": "Sign in first. A program sends a token: {header}",
    "program.no_workspace": "There is no such workspace.",
    "program.nothing_here": "There is nothing here.",
    "program.enter": "Only a browser that goes there itself can open this.",
    "program.own_origin": (
        "Here a program sends a token. A session opens this workspace at its own address: {origin}/"
    ),
    "program.port": "Ports can't be opened here: workspaces have no network of their own.",
    "program.silent": "Nothing listens on port {port} in the workspace.",
    "program.asleep": "The workspace sleeps, and only its owner can wake it.",
    "program.unreadable_request": "This can't be passed on: {reason}.",
    "program.body_too_large": "The body is larger than {max} bytes.",
    "program.late_request": "The request did not come to its end in time.",
    "program.unreachable": "The workspace can't be reached.",
    "program.no_response": "The workspace closed the connection without an answer.",
    "program.unreadable_response": "The answer of the workspace can't be passed on: {reason}.",
}
