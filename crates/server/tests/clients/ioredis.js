// What a program that uses ioredis does, against Foreshore. Argument: port. Prints "all is well".

const assert = require('node:assert')
const Redis = require('ioredis')

async function main() {
  const db = new Redis({ port: Number(process.argv[2]) })
  assert.equal(await db.set('greeting', 'hello'), 'OK')
  assert.equal(await db.get('greeting'), 'hello')
  const replies = await db.pipeline().set('a', 1).incr('a').get('a').exec()
  assert.deepEqual(replies, [[null, 'OK'], [null, 2], [null, '2']])
  assert.deepEqual(await db.multi().incr('a').mget('a', 'x').exec(), [[null, 3], [null, ['3', null]]])
  await db.watch('a')
  await db.duplicate().set('a', 7)
  assert.equal(await db.multi().incr('a').exec(), null)
  await assert.rejects(db.expire('a', 10), /expire/)
  await db.flushdb()
  console.log('all is well')
  process.exit(0)
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
